// Package integration puts the API types, their rules and the validating webhook before a real API
// server: kube-apiserver and etcd without nodes.
package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"attune.io/attune/test/cluster"
)

// assetsVariable names a directory with etcd, kube-apiserver and kubectl to use instead of the test
// cluster's own.
const assetsVariable = "ATTUNE_ASSETS"

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
	env := &envtest.Environment{
		CRDDirectoryPaths:     []string{filepath.Join("..", "..", "config", "crd")},
		ErrorIfCRDPathMissing: true,
	}
	if err := findPrograms(env); err != nil {
		return 1, fmt.Errorf("finding kube-apiserver and etcd: %w", err)
	}
	// Lists that a cache answers wait until it has caught up with the last write.
	env.ControlPlane.GetAPIServer().Configure().Set("watch-cache", "false")
	if server, err = env.Start(); err != nil {
		return 1, errors.Join(fmt.Errorf("starting the API server with the CRDs: %w", err), env.Stop())
	}
	defer func() { err = errors.Join(err, env.Stop()) }()
	return m.Run(), nil
}

func findPrograms(env *envtest.Environment) error {
	if dir := os.Getenv(assetsVariable); dir != "" {
		env.BinaryAssetsDirectory = dir
		return nil
	}
	tools, err := cluster.Build(context.Background(), cluster.Options{Progress: os.Stderr})
	if err != nil {
		return err
	}
	env.ControlPlane.Etcd = &envtest.Etcd{}
	for name, path := range map[string]*string{
		"kube-apiserver": &env.ControlPlane.GetAPIServer().Path,
		"etcd":           &env.ControlPlane.Etcd.Path,
		"kubectl":        &env.ControlPlane.KubectlPath,
	} {
		if *path, err = tools.Find(name); err != nil {
			return err
		}
	}
	return nil
}
