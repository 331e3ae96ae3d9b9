package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"attune.io/attune/api/v1alpha1"
)

// Usage is a line for each resource with a stored history, and not a part of the JSON.
func TestExplainDrawsUsage(t *testing.T) {
	c := newCLITest(t, interceptor.Funcs{})
	before := c.run("explain", "deployment/web", "-o", "json")
	c.remembered(7)
	plain := c.run("explain", "deployment/web")
	golden(t, "explain-usage.txt", plain.out)
	assert.Empty(t, plain.errOut)
	assert.Equal(t, before.out, c.run("explain", "deployment/web", "-o", "json").out)
	c.utf8 = true
	golden(t, "explain-usage-utf8.txt", c.run("explain", "deployment/web").out)

	c.change(func(rec *v1alpha1.AttuneRecommendation) { rec.Spec.Checkpoints[0].Data = []byte("x") })
	broken := c.run("explain", "deployment/web")
	assert.Equal(t, exitOK, broken.code)
	assert.False(t, strings.Contains(broken.out, "usage  "))
	assert.Contains(t, broken.errOut, "usage is not shown: the checkpoint of container app cannot be used")
}
