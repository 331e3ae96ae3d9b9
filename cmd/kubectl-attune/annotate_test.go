package main

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

	assert.Equal(t, answer{out: "Deployment/web in namespace shop is paused\n" + afterPause + "\n"}, cli.run("pause", "deploy/web"))
	paused := cli.deployment("web")
	assert.Equal(t, map[string]string{v1alpha1.PausedAnnotation: "true"}, paused.Annotations)
	assert.Equal(t, before.Spec, paused.Spec, "nothing but the annotation is written")
	assert.Equal(t, before.Labels, paused.Labels)

	assert.Equal(t, answer{out: "Deployment/web in namespace shop is already paused\n" + afterPause + "\n"}, cli.run("pause", "Deployments/web"))
	assert.Equal(t, paused.ResourceVersion, cli.deployment("web").ResourceVersion, "nothing is written twice")

	assert.Equal(t, answer{out: "Deployment/web in namespace shop is resumed\n"}, cli.run("resume", "deployment/web"))
	assert.Empty(t, cli.deployment("web").Annotations)
	assert.Equal(t, answer{out: "Deployment/web in namespace shop is already resumed\n"}, cli.run("resume", "deployment/web"))
}

func TestUndoWritesTheTime(t *testing.T) {
	cli := newCLITest(t, interceptor.Funcs{})
	assert.Equal(t, answer{out: "Deployment/web in namespace shop is being restored\n"}, cli.run("undo", "deploy/web"))
	assert.Equal(t, map[string]string{v1alpha1.UndoAnnotation: "2026-03-02T12:00:00Z"}, cli.deployment("web").Annotations)
}

// Without a recommendation there is nothing to restore, and the annotation would only keep attune away.
func TestUndoOfAWorkloadThatWasNeverSized(t *testing.T) {
	cli := newCLITest(t, interceptor.Funcs{})
	web := cli.deployment("web")
	require.NoError(t, cli.client.Delete(t.Context(), &v1alpha1.AttuneRecommendation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "deployment-web"}}))
	got := cli.run("undo", "deploy/web")
	assert.Equal(t, exitError, got.code)
	assert.Contains(t, got.errOut, "nothing to undo: Deployment/web in namespace shop has no recommendation, so attune has sized none of its pods. To keep attune away, use kubectl attune pause")
	assert.Equal(t, web.ResourceVersion, cli.deployment("web").ResourceVersion)
}

// undo acts on all workloads only with -A. A recommendation without a workload does not stop it for the others.
func TestUndoOfAllWorkloads(t *testing.T) {
	cli := newCLITest(t, interceptor.Funcs{})
	require.NoError(t, cli.client.Get(context.Background(), client.ObjectKey{Namespace: "shop", Name: "deployment-gone"}, &v1alpha1.AttuneRecommendation{}))
	got := cli.run("undo", "-A")
	assert.Equal(t, exitOK, got.code, got.errOut)
	assert.Contains(t, got.out, "StatefulSet/db in namespace pay is being restored\n")
	assert.Contains(t, got.out, "Deployment/web in namespace shop is being restored\n")
	assert.NotContains(t, got.out, "gone")
	assert.Equal(t, exitError, cli.run("undo").code, "not by omission")
}

// resume ends the pause, the undo, and the operator's own pause if there is one.
func TestResumeEndsPauseAndUndo(t *testing.T) {
	cli := newCLITest(t, interceptor.Funcs{})
	cli.run("pause", "deploy/web")
	cli.run("undo", "deploy/web")
	assert.Equal(t, answer{out: "Deployment/web in namespace shop is resumed\n"}, cli.run("resume", "deploy/web"))
	assert.Empty(t, cli.deployment("web").Annotations, "the operator has not paused it")

	assert.Equal(t, answer{out: "StatefulSet/db in namespace pay is resumed\n"}, cli.run("resume", "sts/db", "-n", "pay"))
	var db appsv1.StatefulSet
	require.NoError(t, cli.client.Get(context.Background(), client.ObjectKey{Namespace: "pay", Name: "db"}, &db))
	assert.Equal(t, map[string]string{v1alpha1.ResumedAnnotation: "2026-03-02T12:00:00Z"}, db.Annotations)
}

// A user that may not read recommendations can still end a pause or an undo.
func TestResumeWithoutTheRightToReadRecommendations(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Group: "attune.io", Resource: "attunerecommendations"}, "deployment-web", errors.New("no"))
	cli := newCLITest(t, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
		if _, ok := o.(*v1alpha1.AttuneRecommendation); ok {
			return forbidden
		}
		return c.Get(ctx, key, o, options...)
	}})
	cli.run("pause", "deploy/web")
	got := cli.run("resume", "deploy/web")
	assert.Equal(t, exitOK, got.code)
	assert.Equal(t, "Deployment/web in namespace shop is resumed\n", got.out)
	assert.Contains(t, got.errOut, "a pause by the operator itself, if any, does not end: ")
	assert.Empty(t, cli.deployment("web").Annotations)
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

	assert.Equal(t, answer{code: exitError, errOut: "error: -l tier=none selects no workload with a recommendation\n"},
		cli.run("pause", "-l", "tier=none"))
}

func TestPauseKeepsWhatItDidBeforeAnError(t *testing.T) {
	cli := newCLITest(t, interceptor.Funcs{})
	assert.Equal(t, answer{
		code:   exitError,
		out:    "Deployment/web in namespace shop is paused\n" + afterPause + "\n",
		errOut: "error: Deployment/webb does not exist in namespace shop: check the name, or choose the namespace with -n\n",
	}, cli.run("pause", "deploy/web", "deploy/webb"))
}
