package main

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// checkCommand makes the command that helm test runs: it succeeds where the webhook's Service answers with TLS,
// whatever the answer is. The certificate is not verified; that is the API server's part.
func checkCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check HOST PORT PATH",
		Short: "Fails unless a webhook answers there",
		Args:  cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			url := "https://" + net.JoinHostPort(args[0], args[1]) + args[2]
			request, err := http.NewRequestWithContext(cmd.Context(), http.MethodGet, url, nil)
			if err != nil {
				return err
			}
			// Whether the certificate is trusted is the API server's to say; here it is about an answer.
			transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
			response, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Do(request)
			if err != nil && strings.Contains(err.Error(), "tls: certificate required") {
				fmt.Fprintln(cmd.OutOrStdout(), "the webhook answers, and asks for a certificate, as --webhook-client-ca-file says")
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
