package pod

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
)

// bareReview is the review of a pod in a namespace without recommendations, as the API server calls the webhook for every
// namespace with the chart's webhook.namespaces: AllButDisabled.
func bareReview(t testing.TB) []byte {
	t.Helper()
	pod := typicalPod(t)
	pod.Namespace = "bare"
	return reviewOf(t, pod)
}

// A review of a namespace without recommendations costs little, however large its pod is.
func TestReviewWithoutRecommendationsDecodesNoPod(t *testing.T) {
	h := handler(t, fleet(t, 10), fixed(now))
	pod := typicalPod(t)
	pod.Namespace = "bare"
	small := reviewOf(t, pod)
	for i := range 30 {
		c := *pod.Spec.Containers[0].DeepCopy()
		c.Name = fmt.Sprint("more-", i)
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	large := reviewOf(t, pod)
	require.Greater(t, len(large), 4*len(small))
	for name, body := range map[string][]byte{"small": small, "large": large} {
		d := answerOf(t, h, body)
		assert.True(t, d.Response.Allowed)
		assert.Empty(t, d.Response.Patch)
		allocs := testing.AllocsPerRun(100, func() { _, _ = h.Answer(body) })
		t.Logf("%s: %d bytes, %.0f allocations", name, len(body), allocs)
		assert.LessOrEqual(t, allocs, 30.0, name)
	}
}

// Every other review is decoded as a whole: in a namespace with recommendations, a dry run, and JSON that the API server
// does not write.
func TestReviewsThatAreDecodedAsAWhole(t *testing.T) {
	h := handler(t, fleet(t, 10), fixed(now))
	bare := bareReview(t)
	require.NotNil(t, h.withoutRecommendations(bare))
	assert.Nil(t, h.withoutRecommendations(reviewOf(t, typicalPod(t))), "shop has recommendations")

	var indented bytes.Buffer
	require.NoError(t, json.Indent(&indented, bare, "", " "))
	for name, body := range map[string]string{
		"a dry run":                strings.Replace(string(bare), `"dryRun":false`, `"dryRun":true`, 1),
		"no dryRun":                strings.Replace(string(bare), `,"dryRun":false`, ``, 1),
		"another operation":        strings.Replace(string(bare), `"CREATE"`, `"UPDATE"`, 1),
		"a subresource":            strings.Replace(string(bare), `"namespace":"bare"`, `"namespace":"bare","subResource":"resize"`, 1),
		"no UID":                   strings.Replace(string(bare), "705ab4f5-6393-11e8-b7cc-42010a800002", "", 1),
		"two namespaces":           strings.Replace(string(bare), `"namespace":"bare"`, `"namespace":"bare","namespace":"shop"`, 1),
		"an object in the user":    strings.Replace(string(bare), `"userInfo":{`, `"userInfo":{"a":1,"object":{},`, 1),
		"indented":                 indented.String(),
		"cut off":                  string(bare[:200]),
		"an object without a pod":  strings.Replace(string(bare), `,"object":{`, `,"object":null,"b":{`, 1),
		"a namespace with escapes": strings.Replace(string(bare), `"namespace":"bare"`, `"namespace":"\u0073hop"`, 1),
	} {
		assert.Nil(t, h.withoutRecommendations([]byte(body)), name)
	}
	assert.Equal(t, string(bare), string(bareReview(t)), "the body is not changed")
}

// The recommendations of a namespace are counted through all changes.
func TestRecommendationsOfANamespaceAreCounted(t *testing.T) {
	x := NewIndex()
	rec, other := typicalSeed(t), typicalSeed(t)
	other.Name = "deployment-other"
	assert.False(t, x.Recommends(rec.Namespace))
	x.Delete(rec)
	x.Set(rec)
	x.Set(rec)
	x.Set(other)
	x.Set(&corev1.LimitRange{})
	assert.True(t, x.Recommends(rec.Namespace))
	assert.False(t, x.Recommends("bare"))
	x.Delete(rec)
	x.Delete(rec)
	assert.True(t, x.Recommends(rec.Namespace))
	x.Delete(other)
	assert.False(t, x.Recommends(rec.Namespace))
	assert.Empty(t, x.counts)
}

// The answer without the pod is the answer with it, and both are counted alike.
func TestAnswerWithoutThePodIsTheSame(t *testing.T) {
	body := bareReview(t)
	h := handler(t, fleet(t, 10), fixed(now))
	short, err := h.Answer(body)
	require.NoError(t, err)
	var indented bytes.Buffer
	require.NoError(t, json.Indent(&indented, body, "", " "))
	whole, err := h.Answer(indented.Bytes())
	require.NoError(t, err)
	assert.Equal(t, string(whole), string(short))
	assert.Equal(t, 2.0, testutil.ToFloat64(h.Metrics.total.WithLabelValues(string(NoRecommendation))))

	// A recommendation that comes later sizes the next pod.
	rec := typicalSeed(t)
	rec.Namespace = "bare"
	index := h.Known.(*Index)
	index.Set(rec)
	assert.NotEmpty(t, answerOf(t, h, body).Response.Patch)
	index.Delete(&v1alpha1.AttuneRecommendation{ObjectMeta: rec.ObjectMeta})
	assert.Empty(t, answerOf(t, h, body).Response.Patch)
}

func BenchmarkAdmissionWithoutPolicy(b *testing.B) {
	h, body := handler(b, fleet(b, 10_000), fixed(now)), bareReview(b)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := h.Answer(body); err != nil {
			b.Fatal(err)
		}
	}
}
