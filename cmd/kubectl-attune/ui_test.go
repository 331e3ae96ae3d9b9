package main

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// A user that may not forward ports gets an error with the missing right and its namespace.
func TestUIWithoutRights(t *testing.T) {
	cli := newCLITest(t, interceptor.Funcs{})
	ledBy(t, cli, "attune-system", "attune-7c9-xyz_705ab4f5")
	got := cli.run("ui", "--no-open")
	assert.Equal(t, exitError, got.code)
	assert.Contains(t, got.errOut, "missing permission: cannot reach the leader (needs permission to get leases and to create pods/portforward in namespace attune-system)")
	assert.Contains(t, newCLITest(t, interceptor.Funcs{}).run("ui", "--no-open").errOut, "lease attune.attune.io does not exist in namespace attune-system")
}

// An operator of an earlier version has no page.
func TestUIOfAnOlderOperator(t *testing.T) {
	cli := newCLITest(t, interceptor.Funcs{})
	ledBy(t, cli, "attune-system", "attune-7c9-xyz_705ab4f5")
	cli.pods = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/ui/", r.URL.Path[len(r.URL.Path)-4:])
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "404 page not found")
	})
	assert.Contains(t, cli.run("ui", "--no-open").errOut, "the operator has no web page: upgrade the operator")
}
