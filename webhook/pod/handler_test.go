package pod

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
)

func deleted(object any) any { return cache.DeletedFinalStateUnknown{Key: "x", Obj: object} }

// answerOf sends a review to a handler over HTTP and reads the answer strictly.
func answerOf(t *testing.T, h http.Handler, body []byte) *admissionv1.AdmissionReview {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, Path, bytes.NewReader(body)))
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	assert.Equal(t, "application/json", w.Header().Get("Content-Type"))
	var out admissionv1.AdmissionReview
	strict := json.NewDecoder(w.Body)
	strict.DisallowUnknownFields()
	require.NoError(t, strict.Decode(&out))
	return &out
}

func TestHandlerSeeds(t *testing.T) {
	registry := prometheus.NewRegistry()
	h := handler(t, fleet(t, 1), fixed(now))
	h.Metrics = NewMetrics(registry)
	pod := typicalPod(t)

	out := answerOf(t, h, reviewOf(t, pod))

	assert.Equal(t, "admission.k8s.io/v1", out.APIVersion)
	assert.Equal(t, "AdmissionReview", out.Kind)
	assert.Nil(t, out.Request)
	assert.True(t, out.Response.Allowed)
	assert.Equal(t, "705ab4f5-6393-11e8-b7cc-42010a800002", string(out.Response.UID))
	assert.Equal(t, admissionv1.PatchTypeJSONPatch, *out.Response.PatchType)
	assert.Equal(t, map[string]string{"decision": "Seeded"}, out.Response.AuditAnnotations)
	after := applied(t, pod, Decision{Patch: out.Response.Patch})
	assert.Equal(t, []string{
		"cpu=250m/500m memory=256Mi/512Mi", "cpu=150m memory=300Mi/300Mi", "cpu=50m/1 memory=64Mi/512Mi",
	}, resources(after))

	again := answerOf(t, h, reviewOf(t, after))
	assert.True(t, again.Response.Allowed)
	assert.Nil(t, again.Response.Patch)
	assert.Nil(t, again.Response.PatchType)

	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP attune_admission_total Number of pods at admission, without dry runs, by result: Seeded, or the reason why the webhook did not change the pod.
# TYPE attune_admission_total counter
attune_admission_total{result="Seeded"} 2
`), "attune_admission_total"))
	assert.Equal(t, 1, testutil.CollectAndCount(registry, "attune_admission_duration_seconds"))
}

func TestHandlerAllowsUnreadableRequests(t *testing.T) {
	edit := func(change func(*admissionv1.AdmissionRequest)) []byte {
		var review admissionv1.AdmissionReview
		require.NoError(t, json.Unmarshal(reviewOf(t, typicalPod(t)), &review))
		change(review.Request)
		raw, err := json.Marshal(review)
		require.NoError(t, err)
		return raw
	}
	pod := func(change func(*corev1.Pod)) []byte {
		p := typicalPod(t)
		change(p)
		return reviewOf(t, p)
	}
	cases := []struct {
		name string
		body []byte
		want Reason
	}{
		{"an update", edit(func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Update }), NotAPod},
		{"a subresource", edit(func(r *admissionv1.AdmissionRequest) { r.SubResource = "resize" }), NotAPod},
		{"another resource", edit(func(r *admissionv1.AdmissionRequest) { r.Resource.Resource = "nodes" }), NotAPod},
		{"another group", edit(func(r *admissionv1.AdmissionRequest) { r.Resource.Group = "example.com" }), NotAPod},
		{"another namespace", edit(func(r *admissionv1.AdmissionRequest) { r.Namespace = "other" }), NoRecommendation},
		{"no controller", pod(func(p *corev1.Pod) { p.OwnerReferences = nil }), NoOwner},
		{"an unknown controller", pod(func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "Thing" }), NoOwner},
		{"an unknown workload", pod(func(p *corev1.Pod) { p.OwnerReferences[0].Name = "api-7c9d8b6f5" }), NoRecommendation},
		{"a quantity that is none", []byte(strings.Replace(string(reviewOf(t, typicalPod(t))), `"cpu":"500m"`, `"cpu":"half"`, 1)), Unreadable},
		{"a quantity that takes very long to read", []byte(strings.Replace(string(reviewOf(t, typicalPod(t))), `"cpu":"500m"`, `"cpu":"1e-2147483647"`, 1)), Unreadable},
		{"a quantity that takes very long to compare", []byte(strings.Replace(string(reviewOf(t, typicalPod(t))), `"cpu":"500m"`, `"cpu":"1e2000000000"`, 1)), Unreadable},
		{"an object of another shape", []byte(strings.Replace(string(reviewOf(t, typicalPod(t))), `"containers":[`, `"containers":7,"x":[`, 1)), Unreadable},
		{"no object", []byte(`{"request":{"uid":"u","operation":"CREATE","resource":{"version":"v1","resource":"pods"}}}`), NoOwner},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			out := answerOf(t, handler(t, fleet(t, 1), fixed(now)), c.body)
			assert.True(t, out.Response.Allowed)
			assert.Nil(t, out.Response.Patch)
			assert.Equal(t, map[string]string{"decision": string(c.want)}, out.Response.AuditAnnotations)
		})
	}
}

// broken panics on every call.
type broken struct{}

func (broken) Recommendation(workload.Identity) *Recommendation { panic("broken") }
func (broken) Recommends(string) bool                           { panic("defect") }
func (broken) Newest(workload.Identity, string) *Recommendation { panic("broken") }
func (broken) Namespace(string) *Namespace                      { panic("broken") }

func TestHandlerSurvivesItsOwnDefects(t *testing.T) {
	out := answerOf(t, handler(t, broken{}, fixed(now)), reviewOf(t, typicalPod(t)))
	assert.True(t, out.Response.Allowed)
	assert.Nil(t, out.Response.Patch)
	assert.Equal(t, "Failed", out.Response.AuditAnnotations["decision"])
}

func TestHandlerRejectsOtherBodies(t *testing.T) {
	cases := []struct {
		name string
		body []byte
		want int
	}{
		{"empty", nil, http.StatusBadRequest},
		{"not JSON", []byte("{"), http.StatusBadRequest},
		{"no request", []byte("{}"), http.StatusBadRequest},
		{"no uid", []byte(`{"request":{}}`), http.StatusBadRequest},
		{"cut off", reviewOf(t, typicalPod(t))[:2000], http.StatusBadRequest},
		{"too large", bytes.Repeat([]byte(" "), maxBody+1), http.StatusRequestEntityTooLarge},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			h := handler(t, NewIndex(), fixed(now))
			h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, Path, bytes.NewReader(c.body)))
			assert.Equal(t, c.want, w.Code)
			assert.InDelta(t, 1, testutil.ToFloat64(h.Metrics.total.WithLabelValues("Unreadable")), 0)
		})
	}
}

func TestDryRunGetsTheSameAnswerAndIsNotCounted(t *testing.T) {
	h := handler(t, fleet(t, 1), fixed(now))
	body := reviewOf(t, typicalPod(t))
	dry := bytes.Replace(body, []byte(`"dryRun":false`), []byte(`"dryRun":true`), 1)
	require.NotEqual(t, body, dry)

	real, err := h.Answer(body)
	require.NoError(t, err)
	same, err := h.Answer(dry)
	require.NoError(t, err)

	assert.Equal(t, string(real), string(same))
	assert.InDelta(t, 1, testutil.ToFloat64(h.Metrics.total.WithLabelValues("Seeded")), 0)
}

// The doctor cannot see from a pod that keeps its resources whether the webhook was called (failurePolicy Ignore). Only a
// dry run with the probe annotation gets the answer: a pod that is created does not change with it.
func TestDryRunOfAProbeIsAnswered(t *testing.T) {
	h := handler(t, fleet(t, 1), fixed(now))
	pod := typicalPod(t)
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	without := answerOf(t, h, reviewOf(t, pod)).Response
	pod.Annotations[v1alpha1.ProbeAnnotation] = v1alpha1.ProbeAsked
	body := reviewOf(t, pod)

	created := answerOf(t, h, body).Response
	assert.NotContains(t, string(created.Patch), "probe")
	assert.Equal(t, string(without.Patch), string(created.Patch), "a pod that is created does not change with the annotation")

	dry := bytes.Replace(body, []byte(`"dryRun":false`), []byte(`"dryRun":true`), 1)
	answered := answerOf(t, h, dry).Response
	assert.Equal(t, map[string]string{"decision": "Probed"}, answered.AuditAnnotations)
	after := applied(t, pod, Decision{Patch: answered.Patch})
	assert.Equal(t, v1alpha1.ProbeAnswered, after.Annotations[v1alpha1.ProbeAnnotation])
	assert.Equal(t, resources(pod), resources(after))
	assert.InDelta(t, 2, testutil.ToFloat64(h.Metrics.total.WithLabelValues("Seeded")), 0, "a probe is not counted")

	// The API server may call the webhook again (reinvocationPolicy IfNeeded).
	again := answerOf(t, h, bytes.Replace(reviewOf(t, after), []byte(`"dryRun":false`), []byte(`"dryRun":true`), 1)).Response
	assert.NotContains(t, string(again.Patch), "probe")
}

func TestAnswersWhileTheIndexChanges(t *testing.T) {
	x := fleet(t, 10)
	h := handler(t, x, fixed(now))
	body, rec := reviewOf(t, typicalPod(t)), typicalSeed(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				answer, err := h.Answer(body)
				assert.NoError(t, err)
				assert.Contains(t, string(answer), `"decision":"Seeded"`)
			}
		})
	}
	for range 200 {
		x.Set(rec)
		x.Set(quota("requests.cpu", "10", "1"))
	}
	wg.Wait()
}

func FuzzAnswer(f *testing.F) {
	f.Add(reviewOf(f, typicalPod(f)))
	f.Add([]byte(`{"request":{"uid":"u"}}`))
	h := handler(f, fleet(f, 1), fixed(now))
	f.Fuzz(func(t *testing.T, body []byte) {
		answer, err := h.Answer(body)
		if err != nil {
			return
		}
		var out admissionv1.AdmissionReview
		require.NoError(t, json.Unmarshal(answer, &out), string(answer))
		assert.True(t, out.Response.Allowed)
		assert.NotEqual(t, "Failed", out.Response.AuditAnnotations["decision"])
	})
}
