// Package apiserver starts a real API server for tests: kube-apiserver and etcd, without nodes.
package apiserver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"attune.io/attune/test/cluster"
)

// assetsVariable names a directory with etcd, kube-apiserver and kubectl to use instead of the test
// cluster's own.
const assetsVariable = "ATTUNE_ASSETS"

// New finds the programs and sets up an API server that knows attune's kinds. The caller starts and stops it.
func New() (*envtest.Environment, error) {
	project, err := cluster.ProjectDir()
	if err != nil {
		return nil, err
	}
	env := &envtest.Environment{
		CRDDirectoryPaths:     []string{filepath.Join(project, "config", "crd")},
		ErrorIfCRDPathMissing: true,
	}
	Patient(env)
	if err := findPrograms(env); err != nil {
		return nil, fmt.Errorf("finding kube-apiserver and etcd: %w", err)
	}
	return env, nil
}

// patience bounds the waits for a program, and for the API server to serve a kind: a machine that does something else
// as well takes its time.
const patience = 5 * time.Minute

// Patient makes an API server's start and end wait as long as a busy machine takes.
func Patient(env *envtest.Environment) {
	env.ControlPlaneStartTimeout, env.ControlPlaneStopTimeout = patience, patience
	env.CRDInstallOptions.MaxTime = patience
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
	// What is written here need not outlive a machine that loses its power.
	env.ControlPlane.Etcd.Configure().Set("unsafe-no-fsync", "true")
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
