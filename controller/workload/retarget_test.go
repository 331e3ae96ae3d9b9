package workload

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/tuning"
)

// A revert that a lost node never carries out does not raise the target for ever: it counts when it begins.
func TestARevertCountsWhenItBegins(t *testing.T) {
	pod := running("web-1", sizeOf(2000, 0, 512*mi, 0))
	record := v1alpha1.ResizeRecord{PodUID: pod.UID, Phase: v1alpha1.RecordReverting,
		Prior: []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(sizeOf(1000, 0, 512*mi, 0))}}}
	forward := record
	forward.Phase, forward.Desired, forward.Prior = v1alpha1.RecordWatching, record.Prior, nil
	sends := []tuning.Write{{Pod: pod}}
	for name, c := range map[string]struct {
		stored, decided v1alpha1.ResizeRecord
		writes          []tuning.Write
		behind          bool
		want            recommender.Amount
	}{
		"begins":                           {forward, record, sends, false, 1000},
		"is tried again":                   {record, record, sends, false, 2000},
		"waits":                            {record, record, nil, false, 2000},
		"was sent, and the cache is older": {record, record, nil, true, 1000},
		"a resize":                         {forward, forward, nil, false, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			w := &tuning.View{Rec: &v1alpha1.AttuneRecommendation{}, Pods: []*corev1.Pod{pod}}
			w.Rec.Status.Records = []v1alpha1.ResizeRecord{c.stored}
			w.Looked.CacheLags = map[types.UID]bool{pod.UID: c.behind}
			d := tuning.Decision{Writes: c.writes}
			d.Status.Records = []v1alpha1.ResizeRecord{c.decided}
			got := lowestRequests(w, d)
			assert.Equal(t, c.want, podview.AmountIn(recommender.CPU, got[0].Spec.Containers[0].Resources.Requests))
			assert.EqualValues(t, 2000, podview.AmountIn(recommender.CPU, pod.Spec.Containers[0].Resources.Requests))
		})
	}
}

// Pods of different requests come and go: the target is not lowered by one for each of them.
func TestATargetALittleTooHighStaysForAMinute(t *testing.T) {
	c, key := &stored{}, types.NamespacedName{Name: "web"}
	assert.Equal(t, littleFor, c.staysRaised(key, 85, 84, false, now))
	assert.Equal(t, 20*time.Second, c.staysRaised(key, 85, 84, false, now.Add(40*time.Second)))
	assert.Zero(t, c.staysRaised(key, 85, 85, false, now.Add(50*time.Second)))
	assert.Equal(t, littleFor, c.staysRaised(key, 85, 84, false, now.Add(55*time.Second)), "anew")
	assert.Zero(t, c.staysRaised(key, 85, 84, false, now.Add(2*time.Minute)))
	assert.Zero(t, c.staysRaised(key, 85, 83, false, now), "it is more than a little")
	assert.Zero(t, c.staysRaised(key, 71, 70, true, now), "the original target")
	assert.Zero(t, c.staysRaised(key, 84, 85, false, now))
}

// The answer to a change is lost: the API server may have carried it out, so the target is not one that was set back.
func TestATargetOfALostAnswerWasNotSetBack(t *testing.T) {
	last := targetChange{from: 70, to: 74, at: now, sent: 78}
	assert.False(t, last.wasSetBack(78, now))
	assert.False(t, last.wasSetBack(74, now))
	assert.True(t, last.wasSetBack(70, now))
}

// The resize for which a target was raised begins before the target is lowered again, whatever the pace of writes is.
func TestATargetStaysRaisedForItsResize(t *testing.T) {
	last := targetChange{from: 70, to: 85, at: now}
	assert.Equal(t, raisedFor, last.raised(85, now))
	assert.Equal(t, time.Second, last.raised(85, now.Add(raisedFor-time.Second)))
	assert.LessOrEqual(t, last.raised(85, now.Add(raisedFor)), time.Duration(0))
	assert.Zero(t, last.raised(70, now), "another writer set it back")
	assert.Zero(t, targetChange{from: 85, to: 70, at: now}.raised(70, now), "it was lowered")
}

// The wait after a target was set back grows up to a day.
func TestTheWaitAfterATargetWasSetBackGrows(t *testing.T) {
	last := targetChange{from: 70, to: 85, at: now}
	assert.True(t, last.wasSetBack(70, now))
	assert.False(t, last.wasSetBack(85, now))
	assert.Equal(t, now.Add(10*time.Minute), last.rests(70, 85))
	assert.Equal(t, now.Add(time.Minute), last.rests(90, 85), "it is too high")
	last.setBack = 3
	assert.Equal(t, now.Add(80*time.Minute), last.rests(70, 85))
	last.setBack = 1 << 20
	assert.Equal(t, now.Add(24*time.Hour), last.rests(70, 85))
	assert.Equal(t, now.Add(24*time.Hour), last.rests(90, 85))
}

// The target of a deleted workload is restored where attune wrote it: KEDA writes the HPA of a ScaledObject.
func TestTheTargetOfADeletedWorkloadIsRestored(t *testing.T) {
	const note = `annotations: {attune.io/original-target: '{"metric":"cpu","original":70,"written":90}'}`
	const scaler = `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {namespace: shop, name: keda-hpa-web, uid: "2", ` + note + `OWNERS}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 90}}}]
`
	const owners = `, ownerReferences: [{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, name: web, uid: "1"}]`
	const scaledObject = `
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {namespace: shop, name: web, uid: "1", ` + note + `}
spec:
  scaleTargetRef: {name: web}
  triggers: [{type: cpu, metricType: Utilization, metadata: {value: "90"}}]
`
	for name, c := range map[string]struct {
		objects  []string
		restored int
	}{
		"of a user":                         {[]string{strings.Replace(scaler, "OWNERS", "", 1)}, 0},
		"of KEDA":                           {[]string{strings.Replace(scaler, "OWNERS", owners, 1), scaledObject}, 1},
		"of KEDA, without its ScaledObject": {[]string{strings.Replace(scaler, "OWNERS", owners, 1)}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			b := fake.NewClientBuilder()
			all := make([]*unstructured.Unstructured, len(c.objects))
			for i, text := range c.objects {
				all[i] = &unstructured.Unstructured{}
				require.NoError(t, yaml.Unmarshal([]byte(text), all[i]))
				b.WithObjects(all[i])
			}
			api := b.Build()
			rec := &v1alpha1.AttuneRecommendation{}
			rec.Namespace = "shop"
			rec.Spec.Workload = v1alpha1.WorkloadRef{Kind: v1alpha1.KindDeployment, Name: "web"}
			rec.Spec.HPABindings = []v1alpha1.HPABinding{{HPA: "keda-hpa-web", Resource: "cpu", Percent: 90, OriginalPercent: 70}}
			raced := 0
			restoreTargets(t.Context(), api, interceptor.NewClient(api, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				if raced++; raced == 1 {
					return apierrors.NewConflict(schema.GroupResource{}, o.GetName(), errors.New("the HPA controller was first"))
				}
				return c.Patch(ctx, o, p, opts...)
			}}), rec)
			for i, o := range all {
				require.NoError(t, api.Get(t.Context(), client.ObjectKeyFromObject(o), o))
				text, err := o.MarshalJSON()
				require.NoError(t, err)
				assert.Equal(t, i == c.restored, strings.Contains(string(text), `Utilization":70`) || strings.Contains(string(text), `"value":"70"`), "%s", text)
				assert.Equal(t, i != c.restored, len(o.GetAnnotations()) > 0, "%s", text)
			}
		})
	}
}
