package main

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"attune.io/attune/api/v1alpha1"
)

func (c cliTest) deployment(name string) *appsv1.Deployment {
	c.t.Helper()
	var deployment appsv1.Deployment
	require.NoError(c.t, c.client.Get(context.Background(), client.ObjectKey{Namespace: "shop", Name: name}, &deployment))
	return &deployment
}

func TestPauseAndResume(t *testing.T) {
	cli := newCLITest(t, interceptor.Funcs{})
	before := cli.deployment("web")

	assert.Equal(t, answer{out: "Deployment/web in namespace shop is paused\n"}, cli.run("pause", "deploy/web"))
	paused := cli.deployment("web")
	assert.Equal(t, map[string]string{v1alpha1.PausedAnnotation: "true"}, paused.Annotations)
	assert.Equal(t, before.Spec, paused.Spec, "nothing but the annotation is written")
	assert.Equal(t, before.Labels, paused.Labels)

	assert.Equal(t, answer{out: "Deployment/web in namespace shop is already paused\n"}, cli.run("pause", "Deployments/web"))
	assert.Equal(t, paused.ResourceVersion, cli.deployment("web").ResourceVersion, "nothing is written twice")

	assert.Equal(t, answer{out: "Deployment/web in namespace shop is resumed\n"}, cli.run("resume", "deployment/web"))
	assert.Empty(t, cli.deployment("web").Annotations)
	assert.Equal(t, answer{out: "Deployment/web in namespace shop is already resumed\n"}, cli.run("resume", "deployment/web"))
}

func TestUndoWritesTheTime(t *testing.T) {
	cli := newCLITest(t, interceptor.Funcs{})
	assert.Equal(t, answer{out: "Deployment/web in namespace shop is being put back\n"}, cli.run("undo", "deploy/web"))
	assert.Equal(t, map[string]string{v1alpha1.UndoAnnotation: "2026-03-02T12:00:00Z"}, cli.deployment("web").Annotations)
}

func TestPauseSelectsByLabel(t *testing.T) {
	cli := newCLITest(t, interceptor.Funcs{})
	got := cli.run("pause", "-A", "-l", "tier in (api,store)", "-o", "json")
	assert.Equal(t, exitOK, got.code, got.errOut)
	assert.JSONEq(t, `{"workloads": [
		{"namespace": "pay", "kind": "StatefulSet", "name": "db", "done": "paused", "changed": true},
		{"namespace": "shop", "kind": "Deployment", "name": "web", "done": "paused", "changed": true}
	]}`, got.out)
	assert.Equal(t, "true", cli.deployment("web").Annotations[v1alpha1.PausedAnnotation])

	assert.Equal(t, answer{code: exitError, errOut: "error: -l tier=none selects no workload that has a recommendation\n"},
		cli.run("pause", "-l", "tier=none"))
}

func TestPauseKeepsWhatItDidBeforeAnError(t *testing.T) {
	cli := newCLITest(t, interceptor.Funcs{})
	assert.Equal(t, answer{
		code:   exitError,
		out:    "Deployment/web in namespace shop is paused\n",
		errOut: "error: Deployment/webb does not exist in namespace shop: check the name, or choose the namespace with -n\n",
	}, cli.run("pause", "deploy/web", "deploy/webb"))
}
