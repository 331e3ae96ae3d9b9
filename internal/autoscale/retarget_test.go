package autoscale_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// hpaAt is an HPA at a target, with the annotation of attune if it is not empty.
func hpaAt(target int32, annotation string) autoscalingv2.HorizontalPodAutoscaler {
	of := hpa("web", ofPods("cpu", utilization(target)))
	if annotation != "" {
		of.Annotations = map[string]string{autoscale.OriginalTargetAnnotation: annotation}
	}
	return of
}

func TestOriginalTargetOfAnHPA(t *testing.T) {
	type change = func(*autoscalingv2.HorizontalPodAutoscaler)
	fields := func(manager, raw string) change {
		return func(h *autoscalingv2.HorizontalPodAutoscaler) {
			h.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: manager, FieldsV1: metav1.NewFieldsV1(raw)}}
		}
	}
	const metrics = `{"f:spec":{"f:metrics":{}}}`
	mark := func(name string) change {
		return func(h *autoscalingv2.HorizontalPodAutoscaler) { metav1.SetMetaDataLabel(&h.ObjectMeta, name, "x") }
	}
	owned := func(kind string) change {
		return func(h *autoscalingv2.HorizontalPodAutoscaler) {
			h.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.org/v1", Kind: kind, Name: "shop"}}
		}
	}
	window := func(seconds *int32) change {
		return func(h *autoscalingv2.HorizontalPodAutoscaler) {
			h.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: seconds}}
		}
	}
	for _, tc := range []struct {
		name     string
		target   int32
		stored   string
		change   change
		original int32
		why      string
	}{
		{"never rewritten", 70, "", nil, 70, ""},
		{"rewritten", 85, `{"metric":"cpu","original":70,"written":85}`, nil, 70, ""},
		{"set back by a user", 70, `{"metric":"cpu","original":70,"written":85}`, nil, 70, ""},
		{"changed by a user", 60, `{"metric":"cpu","original":70,"written":85}`, nil, 60, "it was changed after attune had rewritten it from 70 % to 85 %"},
		{"an annotation that is no JSON", 85, `70`, nil, 85, "is not readable"},
		{"an annotation without figures", 85, `{"metric":"cpu"}`, nil, 85, "is not readable"},
		{"an annotation of a container", 85, `{"metric":"cpu/app","original":70,"written":85}`, nil, 85, "is for the metric cpu/app"},
		{"no target", 0, "", nil, 0, "is not set"},
		{"minReplicas 0", 70, "", func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Spec.MinReplicas = ptr.To[int32](0) }, 70, "has minReplicas 0"},
		{"two targets of CPU", 70, "", func(h *autoscalingv2.HorizontalPodAutoscaler) {
			h.Spec.Metrics = append(h.Spec.Metrics, ofContainer("app", "cpu", utilization(60)))
		}, 70, "more than one target of CPU utilization"},
		{"a target of memory too", 70, "", func(h *autoscalingv2.HorizontalPodAutoscaler) {
			h.Spec.Metrics = append(h.Spec.Metrics, ofPods("memory", utilization(60)))
		}, 70, ""},
		{"no window", 70, "", window(nil), 70, ""},
		{"a window of a minute", 70, "", window(ptr.To[int32](60)), 70, ""},
		{"a shorter window", 70, "", window(ptr.To[int32](59)), 70, "waits only 59 s"},
		{"written by Argo CD", 70, "", fields("argocd-controller", metrics), 70, "belongs to Argo CD"},
		{"its labels written by Argo CD", 70, "", fields("argocd-controller", `{"f:metadata":{}}`), 70, ""},
		{"written by Flux", 70, "", fields("kustomize-controller", metrics), 70, "belongs to Flux"},
		{"written by kubectl", 70, "", fields("kubectl-client-side-apply", metrics), 70, ""},
		{"tracked by Argo CD", 70, "", mark("argocd.argoproj.io/tracking-id"), 70, "belongs to Argo CD"},
		{"of a HelmRelease of Flux", 70, "", mark("helm.toolkit.fluxcd.io/name"), 70, "belongs to Flux"},
		{"of a Helm chart", 70, "", mark("app.kubernetes.io/managed-by"), 70, ""},
		{"of a ScaledObject that is not known", 70, "", owned("ScaledObject"), 70, "ScaledObject shop of HorizontalPodAutoscaler web has no such target"},
		{"of a custom object", 70, "", owned("Shop"), 70, "belongs to Shop shop"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			of := hpaAt(tc.target, tc.stored)
			if tc.change != nil {
				tc.change(&of)
			}
			bindings := autoscale.Bindings(&of, web())
			require.NotEmpty(t, bindings)
			original, why := autoscale.OriginalTarget(&of, bindings[0])
			assert.Equal(t, tc.original, original)
			if tc.why == "" {
				assert.Empty(t, why)
			} else {
				assert.Contains(t, why, tc.why)
			}
		})
	}
	of := hpa("web", ofContainer("app", "cpu", utilization(85)), ofPods("memory", utilization(60)))
	of.Annotations = map[string]string{autoscale.OriginalTargetAnnotation: `{"metric":"cpu/app","original":70,"written":85}`}
	original, why := autoscale.OriginalTarget(&of, autoscale.Bindings(&of, web())[0])
	assert.Equal(t, int32(70), original)
	assert.Empty(t, why)
	_, why = autoscale.OriginalTarget(&of, autoscale.Bindings(&of, web())[1])
	assert.Equal(t, "attune rewrites targets of CPU only", why)
}

// object converts an HPA as the API server returns it.
func object(t *testing.T, of autoscalingv2.HorizontalPodAutoscaler) *unstructured.Unstructured {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&of)
	require.NoError(t, err)
	o := &unstructured.Unstructured{Object: fields}
	o.SetGroupVersionKind(autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"))
	o.SetUID("uid-1")
	o.SetResourceVersion("7")
	return o
}

// patched applies a JSON patch as the API server does.
func patched(t *testing.T, o *unstructured.Unstructured, patch []byte) *unstructured.Unstructured {
	t.Helper()
	operations, err := jsonpatch.DecodePatch(patch)
	require.NoError(t, err)
	before, err := o.MarshalJSON()
	require.NoError(t, err)
	after, err := operations.Apply(before)
	require.NoError(t, err, string(patch))
	next := &unstructured.Unstructured{}
	require.NoError(t, next.UnmarshalJSON(after))
	return next
}

// targets are the target and the annotation of an object.
func targets(o *unstructured.Unstructured) (string, string) {
	list, _, _ := unstructured.NestedSlice(o.Object, "spec", "metrics")
	path := []string{"resource", "target", "averageUtilization"}
	if o.GetKind() == "ScaledObject" {
		list, _, _ = unstructured.NestedSlice(o.Object, "spec", "triggers")
		path = []string{"metadata", "value"}
	}
	for _, entry := range list {
		of := entry.(map[string]any)
		if _, container := of["containerResource"]; container {
			path[0] = "containerResource"
		}
		if value, found, _ := unstructured.NestedFieldNoCopy(of, path...); found {
			return fmt.Sprint(value), o.GetAnnotations()[autoscale.OriginalTargetAnnotation]
		}
	}
	return "", ""
}

func scaledTo(value, annotation string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"scaleTargetRef": map[string]any{"name": "web"},
		"triggers": []any{
			map[string]any{"type": "cron", "metadata": map[string]any{"timezone": "UTC"}},
			map[string]any{"type": "cpu", "metricType": "Utilization", "metadata": map[string]any{"value": value}},
		},
	}}}
	o.SetGroupVersionKind(autoscale.ScaledObjectKind)
	o.SetName("web")
	o.SetUID("uid-1")
	o.SetResourceVersion("7")
	if annotation != "" {
		o.SetAnnotations(map[string]string{autoscale.OriginalTargetAnnotation: annotation})
	}
	return o
}

// States of an HPA or ScaledObject and the target that its pods need, with what is written.
func TestRewriteOfATarget(t *testing.T) {
	const note = `{"metric":"cpu","original":70,"written":85}`
	argo := func(o *unstructured.Unstructured) {
		o.SetAnnotations(map[string]string{"argocd.argoproj.io/tracking-id": "x", autoscale.OriginalTargetAnnotation: note})
	}
	for _, tc := range []struct {
		name     string
		live     int32
		stored   string
		change   func(*unstructured.Unstructured)
		original int32
		to       int32
		// target and stored afterwards; empty: nothing is written.
		target, after string
		why           string
	}{
		{"raised at first", 70, "", nil, 70, 85, "85", note, ""},
		{"has it already", 85, note, nil, 70, 85, "", "", ""},
		{"raised again", 85, note, nil, 70, 88, "88", `{"metric":"cpu","original":70,"written":88}`, ""},
		{"back to the original", 85, note, nil, 70, 70, "70", "", ""},
		{"never changed", 70, "", nil, 70, 70, "", "", ""},
		{"set back by a user, pods still lowered", 70, note, nil, 70, 85, "85", note, ""},
		{"set back by a user, pods back too", 70, note, nil, 70, 70, "70", "", ""},
		{"changed by a user", 60, note, nil, 70, 85, "", "", "was changed after attune had rewritten it"},
		{"changed by a user before attune did", 60, "", nil, 70, 85, "", "", "was changed to 60 % a moment ago"},
		{"Argo CD took it over", 85, note, argo, 70, 88, "", "", "belongs to Argo CD"},
		{"Argo CD took it over, pods back", 85, note, argo, 70, 70, "70", "", ""},
		{"is being deleted", 70, "", func(o *unstructured.Unstructured) { o.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)}) }, 70, 85, "", "", "has no target"},
	} {
		for kind, of := range map[string]*unstructured.Unstructured{
			"HPA":          object(t, hpaAt(tc.live, tc.stored)),
			"ScaledObject": scaledTo(strconv.Itoa(int(tc.live)), tc.stored),
		} {
			t.Run(tc.name+" "+kind, func(t *testing.T) {
				if tc.change != nil {
					tc.change(of)
				}
				b := autoscale.Binding{HPA: "web", Resource: recommender.CPU, Original: tc.original}
				change, err := b.Rewrite(of, tc.to)
				if tc.why != "" {
					assert.ErrorContains(t, err, tc.why)
					return
				}
				require.NoError(t, err)
				if tc.target == "" {
					assert.Nil(t, change)
					return
				}
				require.NotNil(t, change)
				next := patched(t, of, change.Patch)
				target, note := targets(next)
				assert.Equal(t, tc.target, target)
				assert.Equal(t, tc.after, note)
				again, err := b.Rewrite(next, tc.to)
				require.NoError(t, err)
				assert.Nil(t, again, "once is enough")
				assert.Contains(t, string(change.Patch), `{"op":"replace","path":"/metadata/resourceVersion","value":"7"}`)
			})
		}
	}
}

// KEDA accepts a number in any spelling.
func TestRewriteOfATriggerThatIsSpelledInAnotherWay(t *testing.T) {
	for _, spelled := range []string{"070", "+70"} {
		of := scaledTo(spelled, "")
		change, err := autoscale.Binding{HPA: "web", Resource: recommender.CPU, Original: 70}.Rewrite(of, 85)
		require.NoError(t, err)
		target, note := targets(patched(t, of, change.Patch))
		assert.Equal(t, "85", target)
		assert.JSONEq(t, `{"metric":"cpu","original":70,"written":85}`, note)
	}
}

func TestRewriteFindsItsMetric(t *testing.T) {
	of := hpa("web", ofPods("memory", utilization(60)), ofContainer("proxy", "cpu", utilization(50)), ofContainer("app", "cpu", utilization(70)))
	b := autoscale.Binding{HPA: "web", Container: "app", Resource: recommender.CPU, Original: 70}
	change, err := b.Rewrite(object(t, of), 85)
	require.NoError(t, err)
	require.NotNil(t, change)
	assert.Contains(t, string(change.Patch), `{"op":"test","path":"/spec/metrics/2/containerResource/target/averageUtilization","value":70}`)
	of.Spec.Metrics = append(of.Spec.Metrics, of.Spec.Metrics[2])
	_, err = b.Rewrite(object(t, of), 85)
	assert.ErrorContains(t, err, "has no target of cpu/app utilization any more, or more than one")
}

func TestRestoreOfATarget(t *testing.T) {
	const note = `{"metric":"cpu","original":70,"written":85}`
	for _, tc := range []struct {
		name         string
		live         int32
		stored       string
		target, rest string
	}{
		{"rewritten", 85, note, "70", ""},
		{"set back by a user", 70, note, "70", ""},
		{"changed by a user", 60, note, "60", ""},
		{"not readable", 85, "70", "85", ""},
		{"never rewritten", 70, "", "", ""},
	} {
		for kind, of := range map[string]*unstructured.Unstructured{
			"HPA":          object(t, hpaAt(tc.live, tc.stored)),
			"ScaledObject": scaledTo(strconv.Itoa(int(tc.live)), tc.stored),
		} {
			t.Run(tc.name+" "+kind, func(t *testing.T) {
				change, err := autoscale.Restore(of)
				require.NoError(t, err)
				if tc.target == "" {
					assert.Nil(t, change)
					return
				}
				require.NotNil(t, change)
				target, note := targets(patched(t, of, change.Patch))
				assert.Equal(t, tc.target, target)
				assert.Equal(t, tc.rest, note)
			})
		}
	}
	keda := hpaAt(85, note)
	keda.OwnerReferences = []metav1.OwnerReference{{Kind: "ScaledObject", Name: "web"}}
	change, err := autoscale.Restore(object(t, keda))
	require.NoError(t, err)
	assert.Nil(t, change, "KEDA writes the HPA")
}

// KEDA creates the HPA, and copies the target of the ScaledObject to it a moment later: attune writes the ScaledObject.
func TestTargetOfAScaledObject(t *testing.T) {
	const note = `{"metric":"cpu","original":70,"written":85}`
	of := hpaAt(70, "")
	of.OwnerReferences = []metav1.OwnerReference{{APIVersion: "keda.sh/v1alpha1", Kind: "ScaledObject", Name: "web"}}
	follower := func(t *testing.T, o *unstructured.Unstructured, request string) (*autoscale.Follower, *recommender.Hold) {
		t.Helper()
		_ = unstructured.SetNestedField(o.Object, "web", "spec", "advanced", "horizontalPodAutoscalerConfig", "name")
		holds := autoscale.Autoscalers{
			HPAs: []autoscalingv2.HorizontalPodAutoscaler{of}, ScaledObjects: []unstructured.Unstructured{*o}, MayRetarget: true,
		}.Of(web()).Keep([]string{"app"}, nil, retargets(map[string]string{"app": request}))
		return holds.Follower(), holds.On("app", recommender.CPU)
	}
	f, hold := follower(t, scaledTo("85", note), "1")
	require.NotNil(t, f, "%v", hold)
	kind, name := f.Written()
	assert.Equal(t, [2]string{"ScaledObject", "web"}, [2]string{kind.Kind, name})
	assert.Equal(t, [3]int32{70, 70, 85}, [3]int32{f.Threshold.Target, f.Percent, f.Live()})

	tracked := scaledTo("85", note)
	tracked.SetLabels(map[string]string{"kustomize.toolkit.fluxcd.io/name": "shop"})
	f, hold = follower(t, tracked, "1")
	require.NotNil(t, f, "it may come closer to the original one")
	assert.Equal(t, [3]int32{70, 78, 85}, [3]int32{f.At(1000), f.At(900), f.At(500)})
	assert.Contains(t, hold.Message, "ScaledObject web belongs to Flux")

	f, hold = follower(t, scaledTo("60", note), "999m")
	assert.Nil(t, f)
	assert.Contains(t, hold.Message, "the target of ScaledObject web is 60 %: it was changed after attune had rewritten it")
}

// KEDA deletes the HPA of a paused ScaledObject, which keeps the changed target: it still moves towards the original one.
func TestTargetOfAPausedScaledObject(t *testing.T) {
	of := func(annotation string) autoscale.Holds {
		return autoscale.Autoscalers{ScaledObjects: []unstructured.Unstructured{*scaledTo("85", annotation)}, MayRetarget: true}.Of(web()).
			Keep([]string{"app"}, nil, retargets(map[string]string{"app": "900m"}))
	}
	holds := of(`{"metric":"cpu","original":70,"written":85}`)
	f := holds.Follower()
	require.NotNil(t, f)
	kind, name := f.Written()
	assert.Equal(t, [2]string{"ScaledObject", "web"}, [2]string{kind.Kind, name})
	assert.Equal(t, [4]int32{85, 70, 78, 85}, [4]int32{f.Live(), f.At(1000), f.At(900), f.At(500)})
	assert.Contains(t, holds.On("app", recommender.CPU).Message, "of ScaledObject web, also while it is paused")
	assert.Equal(t, int32(70), holds.Stored()[0].OriginalPercent)
	for _, annotation := range []string{"", "x", `{"metric":"cpu","original":70,"written":88}`} {
		assert.Nil(t, of(annotation).Follower(), annotation)
	}
}

// Without the right, the reason names the target that is left and how to restore it.
func TestTargetThatMayNotBeRestored(t *testing.T) {
	holds := func(setting bool, annotation string) string {
		f := retargets(map[string]string{"app": "1"})
		if !setting {
			f.Keeps = func(string, recommender.Resource) bool { return false }
			f.Retargets = nil
		}
		of := autoscale.Autoscalers{HPAs: []autoscalingv2.HorizontalPodAutoscaler{hpaAt(85, annotation)}}.Of(web())
		return of.Keep([]string{"app"}, nil, f).On("app", recommender.CPU).Message
	}
	const note = `{"metric":"cpu","original":70,"written":85}`
	const left = "attune changed the target of HorizontalPodAutoscaler web from 70 % to 85 % and may not restore it. New pods that attune sizes get the request that belongs to 85 %, within the bounds of the policy. " +
		`Restore it with kubectl patch hpa web -n shop --type=json -p='[{"op":"test","path":"/spec/metrics/0/resource/target/averageUtilization","value":85},` +
		`{"op":"replace","path":"/spec/metrics/0/resource/target/averageUtilization","value":70},` +
		`{"op":"remove","path":"/metadata/annotations/attune.io~1original-target"}]', and then kubectl attune undo deployment/web`
	assert.Contains(t, holds(true, note), left)
	assert.Contains(t, holds(false, note), strings.Replace(left, ". New pods that attune sizes get the request that belongs to 85 %, within the bounds of the policy", "", 1))
	assert.NotContains(t, holds(true, ""), "estore")
	assert.Contains(t, holds(true, `{"metric":"cpu","original":100,"written":85}`), "Restore it with kubectl attune undo deployment/web, and then kubectl patch hpa web -n shop")
}

// New pods get the request that belongs to a target that attune has changed and cannot write at present.
func TestRequestThatBelongsToATargetThatCannotBeChanged(t *testing.T) {
	const note = `{"metric":"cpu","original":70,"written":85}`
	rejected := resize.TargetRejected(nil, resize.RejectedTarget{Of: "HorizontalPodAutoscaler web", To: 70, Message: "forbidden", At: at}, at)
	lowered := map[string]string{"app": "824m"}
	for name, c := range map[string]struct {
		live, hpas int
		note       string
		right      bool
		tries      []v1alpha1.Try
		pod        map[string]string
		want       [2]recommender.Amount
	}{
		"no right":                        {live: 85, note: note, pod: lowered, want: [2]recommender.Amount{823}},
		"no right, original target":       {live: 70, note: note, pod: lowered},
		"no right, changed by a user":     {live: 60, note: note, pod: lowered},
		"no right, never changed":         {live: 85, pod: lowered},
		"right":                           {live: 85, note: note, pod: lowered, right: true},
		"rejected":                        {live: 85, note: note, pod: lowered, right: true, tries: rejected, want: [2]recommender.Amount{823}},
		"no right, two targets":           {live: 85, note: note, pod: lowered, hpas: 1},
		"no right, request not set":       {live: 85, note: note, pod: map[string]string{"app": "824m", "proxy": ""}},
		"no right, two containers":        {live: 85, note: note, pod: map[string]string{"app": "824m", "side": "164m"}, want: [2]recommender.Amount{823, 164}},
		"no right, one that is not sized": {live: 85, note: note, pod: map[string]string{"app": "824m", "proxy": "1"}, want: [2]recommender.Amount{647}},
	} {
		t.Run(name, func(t *testing.T) {
			of := autoscale.Autoscalers{HPAs: []autoscalingv2.HorizontalPodAutoscaler{hpaAt(int32(c.live), c.note)}, MayRetarget: c.right}
			for range c.hpas {
				of.HPAs = append(of.HPAs, hpa("web2", ofPods("cpu", utilization(70))))
			}
			f := retargets(c.pod, c.pod)
			f.Tries = c.tries
			names := []string{"app", "side"}
			holds := of.Of(web()).Keep(names, nil, f)
			for i, name := range names {
				assert.Equal(t, c.want[i], holds.Paired(name, cpu), name)
			}
			f.Past = fleet(nil, quiet(2, 300)).Past // proves a range of Keep for 85 %
			holds = of.Of(web()).Keep(names, nil, f)
			if c.want[0] > 0 {
				assert.Contains(t, holds.On("app", cpu).Message, "New pods that attune sizes get the request that belongs to 85 %")
			}
		})
	}
}
