package main

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
		{[]string{"--usage-retention=1m"}, "use at least 1h"},
		{[]string{"--usage-size=1Mi"}, "use at least 128Mi"},
		{[]string{"--kubelet-ca-file=/ca.crt", "--kubelet-insecure-skip-verify"}, "exclude each other"},
		{[]string{"--certs-provider=acme"}, "use cert-manager or self-signed"},
	} {
		t.Run(c.want, func(t *testing.T) {
			o := &options{}
			flags := pflag.NewFlagSet("attune", pflag.ContinueOnError)
			o.register(flags)
			require.NoError(t, flags.Parse(append([]string{"--namespace=attune-system"}, c.flags...)))
			err := o.validate()
			if c.want == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, c.want)
			}
		})
	}
}
