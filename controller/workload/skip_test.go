package workload

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/tuning"
)

// Events about a pod are sent on the pod, which users describe; events about its workload, on the recommendation.
func TestEventsAreAboutThePod(t *testing.T) {
	const onPod = "Pod/web-1 of AttuneRecommendation/deployment-web: "
	l := hurt(t)
	l.pass()
	assert.True(t, slices.ContainsFunc(l.told, func(line string) bool {
		return strings.HasPrefix(line, onPod+"Warning Reverted Reverting the resize of pod web-1: oomkill")
	}), l.told)

	l = newLab(t, heading(seen(t, small), big).Rec, deploymentOf(small, 1), running("web-1", small))
	l.resize = func(client.Object) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web-1", errors.New("a policy says no"))
	}
	l.pass()
	require.Len(t, l.told, 1)
	assert.True(t, strings.HasPrefix(l.told[0], onPod+"Warning ResizeFailed Resize of pod web-1 failed: "), l.told)

	l = newLab(t, heading(seen(t, small), big).Rec, deploymentOf(small, 1), running("web-1", small), quotaUsed())
	l.pass()
	require.Len(t, l.told, 1)
	assert.True(t, strings.HasPrefix(l.told[0], "AttuneRecommendation/deployment-web: Warning ResizeSkipped the pod would need "), l.told)
}

// quotaUsed is an exhausted quota of the namespace.
func quotaUsed() *corev1.ResourceQuota {
	q := quotaOf("all", "1", "1")
	q.Namespace = "shop"
	return &q
}

// A block that only a user can lift is reported once, and again only if the block changes.
func TestSkippedWorkloadIsReportedOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		lab  func(t *testing.T) *lab
		says string
	}{
		"the node is too small": {func(t *testing.T) *lab {
			l := newLab(t, heading(seen(t, small), big).Rec, deploymentOf(small, 1), running("web-1", small))
			require.NoError(t, l.api.Delete(t.Context(), node("node-1", "160", "640Gi")))
			require.NoError(t, l.api.Create(t.Context(), node("node-1", "600m", "640Gi")))
			return l
		}, "node node-1 has "},
		"a quota": {func(t *testing.T) *lab {
			return newLab(t, heading(seen(t, small), big).Rec, deploymentOf(small, 1), running("web-1", small), quotaUsed())
		}, "quota all has "},
		"a LimitRange": {func(t *testing.T) *lab {
			return newLab(t, heading(seen(t, small), big).Rec, deploymentOf(small, 1), running("web-1", small), smallest())
		}, "LimitRange"},
		"a person opted out": {func(t *testing.T) *lab {
			l := newLab(t, heading(seen(t, small), big).Rec, deploymentOf(small, 1), running("web-1", small))
			change(l, "web", &appsv1.Deployment{}, func(d *appsv1.Deployment) {
				metav1.SetMetaDataAnnotation(&d.ObjectMeta, v1alpha1.SkipAnnotation, "true")
			})
			return l
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := tc.lab(t)
			l.live(3 * time.Hour)
			require.Zero(t, l.patches)
			require.NotEmpty(t, blocked(tuning.Decision{Status: l.rec().Status}))
			if tc.says == "" {
				assert.Empty(t, l.told)
				return
			}
			require.Len(t, l.told, 1, "%s", l.told)
			assert.Contains(t, l.told[0], "Warning ResizeSkipped ")
			assert.Contains(t, l.told[0], tc.says)
		})
	}
}

// smallest is a LimitRange that allows no container more than its present resources.
func smallest() *corev1.LimitRange {
	limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "small"}}
	limits.Spec.Limits = []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Max: podview.ToRequirements(small).Requests}}
	return limits
}
