// Package integration puts the API types, their rules and the validating webhook before a real API
// server: kube-apiserver and etcd without nodes.
package integration

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"

	"k8s.io/client-go/rest"

	"attune.io/attune/test/apiserver"
)

// server is the API server that every test of the package talks to.
var server *rest.Config

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "integration:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	// The tests that run beside others wait more than they compute.
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		return 1, err
	}
	env, err := apiserver.New()
	if err != nil {
		return 1, err
	}
	// Lists that a cache answers wait until it has caught up with the last write.
	env.ControlPlane.GetAPIServer().Configure().Set("watch-cache", "false")
	if server, err = env.Start(); err != nil {
		return 1, errors.Join(fmt.Errorf("starting the API server with the CRDs: %w", err), env.Stop())
	}
	defer func() { err = errors.Join(err, env.Stop()) }()
	return m.Run(), nil
}
