package main

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"attune.io/attune/api/v1alpha1"
)

// promote writes when the newest size was verified, once, so that later sizes are not promoted.
func TestPromote(t *testing.T) {
	cli := newCLITest(t, interceptor.Funcs{})
	verify := func(times ...metav1.Time) {
		var rec v1alpha1.AttuneRecommendation
		require.NoError(t, cli.client.Get(context.Background(), client.ObjectKey{Namespace: "shop", Name: "deployment-web"}, &rec))
		rec.Status.Verified = nil
		for i, at := range times {
			rec.Status.Verified = append(rec.Status.Verified, v1alpha1.VerifiedResources{Name: string(rune('a' + i)), Since: at})
		}
		require.NoError(t, cli.client.Update(context.Background(), &rec))
	}
	verify()
	none := cli.run("promote", "deploy/web")
	assert.Equal(t, exitError, none.code)
	assert.Contains(t, none.errOut, "Deployment/web has no verified size to promote yet")
	assert.Empty(t, cli.deployment("web").Annotations)

	verify(metav1.Date(2026, 3, 1, 10, 0, 0, 0, metav1.Now().Location()), metav1.Unix(1772445600, 0))
	assert.Equal(t, answer{out: "Deployment/web in namespace shop is promoted\n"}, cli.run("promote", "deploy/web"))
	assert.Equal(t, map[string]string{v1alpha1.PromoteAnnotation: "2026-03-02T10:00:00Z"}, cli.deployment("web").Annotations)
	assert.Equal(t, answer{out: "Deployment/web in namespace shop is already promoted\n"}, cli.run("promote", "deploy/web"))
	assert.Equal(t, exitOK, cli.run("promote", "-A").code, "workloads without a verified size are skipped")
}
