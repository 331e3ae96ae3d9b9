package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/internal/workload"
)

func TestFlagsThatCannotWorkAreRefused(t *testing.T) {
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{nil, ""},
		{[]string{"--usage-source=prometheus"}, "--prometheus-address is empty"},
		{[]string{"--usage-source=prometheus", "--prometheus-address=http://p:9090"}, ""},
		{[]string{"--usage-source=embedded", "--prometheus-address=http://p:9090"}, ""},
		{[]string{"--usage-source=graphite"}, "use embedded or prometheus"},
		{[]string{"--usage-interval=10ms"}, "too short"},
		{[]string{"--hpa-sync-period=900ms"}, "must be from 1s to 5m, such as 15s"},
		{[]string{"--hpa-sync-period=6m"}, "must be from 1s to 5m, such as 15s"},
		{[]string{"--usage-interval=10m"}, ""},
		{[]string{"--usage-interval=1h"}, "too long: use at most 10m0s"},
		{[]string{"--embedded-node-selector=pool in (a, b),!virtual"}, ""},
		{[]string{"--embedded-node-selector=pool in a"}, `--embedded-node-selector "pool in a" is not a label selector, such as type!=virtual-kubelet,`},
		{[]string{"--kubelet-ca-file=/ca.crt", "--kubelet-insecure-skip-verify"}, "exclude each other"},
		{[]string{"--decisions-bind-address="}, ""},
		{[]string{"--decisions-bind-address=[::1]:9000"}, ""},
		{[]string{"--decisions-bind-address=127.0.0.2:9000"}, ""},
		{[]string{"--decisions-bind-address=:8082"}, `--decisions-bind-address ":8082" is not a loopback address with a port: use 127.0.0.1:8082, or leave it empty`},
		{[]string{"--decisions-bind-address=0.0.0.0:8082"}, `"0.0.0.0:8082" is not a loopback address with a port`},
		{[]string{"--decisions-bind-address=10.0.0.1:8082"}, `"10.0.0.1:8082" is not a loopback address with a port`},
		{[]string{"--decisions-bind-address=localhost:8082"}, `"localhost:8082" is not a loopback address with a port`},
		{[]string{"--decisions-bind-address=127.0.0.1"}, `"127.0.0.1" is not a loopback address with a port`},
		{[]string{"--decisions-bind-address=127.0.0.1:0"}, `"127.0.0.1:0" is not a loopback address with a port`},
		{[]string{"--webhook-client-ca-file=/ca.crt", "--webhook-client-name=kube-apiserver"}, ""},
		{[]string{"--webhook-client-name=kube-apiserver"}, "--webhook-client-name needs --webhook-client-ca-file"},
		{[]string{"--watch-namespaces=a,b"}, ""},
		{[]string{"--watch-namespaces=a", "--eviction"}, "--eviction and --watch-namespaces exclude each other"},
		{[]string{"--watch-namespaces=a", "--node-load-taint"}, "--node-load-taint and --watch-namespaces exclude each other"},
		{[]string{"--scaled-kinds=clonesets.v1alpha1.apps.kruise.io"}, ""},
		{[]string{"--scaled-kinds=CloneSet.apps"}, `--scaled-kinds "CloneSet.apps" is not RESOURCE.VERSION.GROUP, such as clonesets.v1alpha1.apps.kruise.io`},
		{[]string{"--scaled-kinds=deployments.v1.apps"}, `--scaled-kinds "deployments.v1.apps" is not RESOURCE.VERSION.GROUP`},
		{[]string{"--scaled-kinds=.v1.example.org"}, `--scaled-kinds ".v1.example.org" is not RESOURCE.VERSION.GROUP`},
		{[]string{"--scaled-kinds=rollouts.v1alpha1.argoproj.io"}, "attune manages Argo Rollouts already"},
		{[]string{"--scaled-kinds=" + strings.Repeat("a.v1.b.c,", 16) + "a.v1.b.c"}, "--scaled-kinds has 17 resources: use at most 16"},
		{[]string{"--webhook-namespace-selector=!control-plane,managedby notin (aks)"}, ""},
		{[]string{"--webhook-namespace-selector=a in b"}, `--webhook-namespace-selector "a in b" is not a label selector, such as team!=ops`},
		{[]string{"--certs-provider=acme"}, "use cert-manager or self-signed"},
		{[]string{"--log-level=loud"}, `--log-level "loud" is unknown: use debug, info or error`},
	} {
		t.Run(c.want, func(t *testing.T) {
			err := optionsOf(t, everything, c.flags...).Validate()
			if c.want == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, c.want)
			}
		})
	}
}

// TestChartHasEverySource: the chart's schema accepts exactly the usage sources of --usage-source.
func TestChartHasEverySource(t *testing.T) {
	raw, err := os.ReadFile("../../charts/attune/values.schema.json")
	require.NoError(t, err)
	var schema struct {
		Properties struct {
			Usage struct {
				Properties struct{ Source struct{ Enum []string } }
			}
		}
	}
	require.NoError(t, json.Unmarshal(raw, &schema))
	assert.ElementsMatch(t, slices.Collect(maps.Keys(sourceKinds)), schema.Properties.Usage.Properties.Source.Enum)
}

// TestFlagsOfTheOtherProgram are rejected: each program accepts the flags that it uses, and both together accept all.
func TestFlagsOfTheOtherProgram(t *testing.T) {
	for _, c := range []struct {
		flag  string
		where []string
	}{
		{"--log-level=info", []string{"", "webhook", "controller"}},
		{"--max-history-steps=11000", []string{"", "webhook", "controller"}},
		{"--certs-provider=self-signed", []string{"", "webhook", "controller"}},
		{"--webhook-port=9443", []string{"", "webhook"}},
		{"--cert-dir=/certs", []string{"", "webhook"}},
		{"--leader-elect=false", []string{"", "controller"}},
		{"--usage-source=embedded", []string{"", "controller"}},
		{"--prometheus-address=http://p:9090", []string{"", "controller"}},
		{"--scraper-service-account=scraper", []string{"", "controller"}},
		{"--eviction", []string{"", "controller"}},
		{"--webhook-excluded-namespaces=bank", []string{"", "controller"}},
		{"--webhook-namespaces=AllButDisabled", []string{"", "controller"}},
	} {
		for _, name := range []string{"", "webhook", "controller"} {
			cmd := command()
			// After the flags are parsed, the command fails at the missing namespace.
			cmd.SetArgs(slices.DeleteFunc([]string{name, c.flag, "--namespace="}, func(arg string) bool { return arg == "" }))
			want := "--namespace is empty"
			if !slices.Contains(c.where, name) {
				want = fmt.Sprintf("unknown flag: %s: run attune %s --help for the list of flags", strings.Split(c.flag, "=")[0], name)
			}
			assert.ErrorContains(t, cmd.Execute(), want, "attune %s %s", name, c.flag)
		}
	}
}

func TestVersion(t *testing.T) {
	var out bytes.Buffer
	cmd := command()
	cmd.SetArgs([]string{"version"})
	cmd.SetOut(&out)
	require.NoError(t, cmd.Execute())
	assert.Regexp(t, `^attune dev, commit \w+, go\S+\n$`, out.String())
}

// TestAdmissionOfFlags: the loops get the same Admission that readers of the operator's arguments get.
func TestAdmissionOfFlags(t *testing.T) {
	for _, flags := range [][]string{
		nil, {"--webhook-excluded-namespaces=bank,legacy"}, {"--watch-namespaces=team-a,team-b"}, {"--webhook-excluded-namespaces=bank", "--watch-namespaces=team-a"},
		{"--webhook-namespaces=AllButDisabled"}, {"--webhook-namespaces=Labelled", "--watch-namespaces=team-a"},
	} {
		assert.Equal(t, workload.AdmissionOf("attune-system", flags), optionsOf(t, program{controls: true}, flags...).admission(), flags)
	}
}

// TestAProgramIsJudgedByItsOwnFlags: the webhook does not check flags that it does not have.
func TestAProgramIsJudgedByItsOwnFlags(t *testing.T) {
	for name, p := range map[string]program{"webhook": {serves: true}, "controller": {controls: true}, "both": everything} {
		t.Run(name, func(t *testing.T) {
			o := optionsOf(t, p)
			assert.NoError(t, o.Validate())
			o.policies.Steps = 1
			assert.ErrorContains(t, o.Validate(), "--max-history-steps")
		})
	}
}
