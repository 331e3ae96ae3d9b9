package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"attune.io/attune/internal/uninstall"
)

// Requests per second of the uninstallation, and its burst: it lists every recommendation, ten at a time, within a minute.
const uninstallQPS, uninstallBurst = 50, 100

// uninstallCommand returns the command that Helm runs after it has uninstalled the chart (see internal/uninstall).
func uninstallCommand() *cobra.Command {
	o := uninstall.Options{}
	timeout := time.Duration(0)
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Removes the finalizers of an operator that was deleted, and restores targets of HPAs; pods keep their resources",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Out = cmd.OutOrStdout()
			return runUninstall(cmd.Context(), o, timeout)
		},
	}
	cmd.Flags().StringVar(&o.Namespace, "namespace", "", "the operator's namespace")
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "time after which it fails, shorter than the deadline of the Job")
	cmd.Flags().StringVar(&o.ServiceAccount, "service-account", "", "the operator's ServiceAccount; while it exists, nothing is changed")
	cmd.Flags().StringVar(&o.Selector, "selector", "", "selector of the operator's pods")
	cmd.Flags().BoolVar(&o.Retargeted, "hpa-retarget", false, "restore the targets of HorizontalPodAutoscalers and ScaledObjects that the operator changed")
	cmd.Flags().StringSliceVar(&o.Watched, "watch-namespaces", nil, "namespaces that the operator watched; empty: all")
	return cmd
}

// runUninstall rejects an empty selector, which would select every pod of the namespace and wait for them for ever.
func runUninstall(ctx context.Context, o uninstall.Options, timeout time.Duration) error {
	if o.Namespace == "" || o.Selector == "" {
		return errors.New("--namespace and --selector are required: they select the operator's pods")
	}
	config, err := clusterConfig()
	if err != nil {
		return err
	}
	config.QPS, config.Burst = uninstallQPS, uninstallBurst
	api, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	if o.Objects, err = dynamic.NewForConfig(config); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	o.Patience = timeout / 2
	return uninstall.Run(ctx, api, o)
}

// checkCommand returns the command of helm test. It succeeds if the webhook's Service responds with TLS, whatever the
// response is. It does not verify the certificate; the API server does that.
func checkCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check HOST PORT PATH",
		Short: "Checks that a webhook answers, and fails if it does not",
		Args:  cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			url := "https://" + net.JoinHostPort(args[0], args[1]) + args[2]
			request, err := http.NewRequestWithContext(cmd.Context(), http.MethodGet, url, nil)
			if err != nil {
				return err
			}
			// The API server verifies the certificate. This command only checks that the webhook responds.
			transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
			response, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Do(request)
			if err != nil && strings.Contains(err.Error(), "tls: certificate required") {
				fmt.Fprintln(cmd.OutOrStdout(), "the webhook answers and requires a client certificate (--webhook-client-ca-file)")
				return nil
			}
			if err != nil {
				return fmt.Errorf("the webhook does not answer: %w", err)
			}
			fmt.Fprintln(cmd.OutOrStdout(), "the webhook answers:", response.Status)
			return response.Body.Close()
		},
	}
}
