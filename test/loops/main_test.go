// Package loops plays stories of the operator's loops among played nodes. The API server is in memory (test/sim/api),
// so that a run takes seconds and go test may remember its result; ATTUNE_BACKEND=apiserver puts the same stories
// before a real one.
package loops

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"attune.io/attune/test/apiserver"
	"attune.io/attune/test/sim/api"
)

// Environment variables, which go test's cache takes into account: the API server, and of how many mishaps one is
// tried (1: all are).
const (
	backendVariable = "ATTUNE_BACKEND"
	oneInVariable   = "ATTUNE_ONE_IN"
)

// server is the real API server that all worlds share; nil: each world has one in memory. mapper knows its kinds.
var (
	server *rest.Config
	mapper meta.RESTMapper
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	var code int
	var err error
	switch backend := os.Getenv(backendVariable); backend {
	case "", "memory":
		code = m.Run()
	case "apiserver":
		code, err = runOnAPIServer(m)
	default:
		err = fmt.Errorf("%s=%s: use memory or apiserver", backendVariable, backend)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "loops:", err)
		code = 1
	}
	os.Exit(code)
}

func runOnAPIServer(m *testing.M) (code int, err error) {
	// These tests wait for the API server more than they compute.
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
	h, err := rest.HTTPClientFor(server)
	if err != nil {
		return 1, err
	}
	if mapper, err = apiutil.NewDynamicRESTMapper(server, h); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// now is when worlds begin: the stamps of a real API server are those of the machine; in memory every run is the same.
func now() time.Time {
	if server != nil {
		return time.Now().UTC().Truncate(time.Second)
	}
	return time.Date(2026, time.March, 3, 10, 20, 30, 0, time.UTC)
}

// backend is the API server of a world whose time is a clock's.
func backend(clock clock.PassiveClock) (*rest.Config, meta.RESTMapper, *api.Server) {
	if server == nil {
		memory := api.New(api.Options{Scheme: scheme, Now: clock.Now, Minor: 36})
		config, mapper := memory.REST("test")
		return config, mapper, memory
	}
	config := rest.CopyConfig(server)
	config.QPS = -1
	return config, mapper, nil
}
