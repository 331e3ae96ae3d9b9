package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/webhook/pod"
	"attune.io/attune/webhook/validation"
)

// TestDecodingIsReserved: all that the handlers ever allocate for a body is what was reserved for it, whatever its
// shape.
func TestDecodingIsReserved(t *testing.T) {
	scheme := kruntime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	handlers := map[string]http.Handler{
		"pod": &pod.Handler{Known: pod.NewIndex(), Metrics: pod.NewMetrics(prometheus.NewRegistry()), Clock: clock.RealClock{}, Log: logr.Discard()},
		"validation": &admission.Webhook{Handler: &validation.Handler{
			Reader: fake.NewClientBuilder().WithScheme(scheme).Build(), Decoder: admission.NewDecoder(scheme), Operator: policy.Operator{Steps: policy.DefaultSteps},
		}},
	}
	const n = 20000
	repeat := func(open, element, end string) string {
		return open + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + end
	}
	unique := &strings.Builder{}
	for i := range n {
		fmt.Fprintf(unique, `"%x":"",`, i)
	}
	labels := `{` + strings.TrimSuffix(unique.String(), ",") + `}`
	objects := map[string]string{
		"containers":     `{"spec":` + repeat(`{"containers":[`, `{}`, `]}`) + `}`,
		"resources":      `{"spec":` + repeat(`{"containers":[`, `{"resources":{"requests":{},"limits":{}}}`, `]}`) + `}`,
		"resize policy":  `{"spec":{"containers":[` + repeat(`{"resizePolicy":[`, `{}`, `]}`) + `]}}`,
		"volumes":        `{"spec":` + repeat(`{"volumes":[{"emptyDir":{"medium":"Memory"}},`, `{}`, `]}`) + `}`,
		"memory volumes": `{"spec":` + repeat(`{"volumes":[`, `{"emptyDir":{"medium":"Memory","sizeLimit":"1"}}`, `]}`) + `}`,
		"volume mounts":  `{"spec":{"volumes":[{"name":"v","emptyDir":{"medium":"Memory"}}],"containers":[` + repeat(`{"volumeMounts":[`, `{"name":"v"}`, `]}`) + `]}}`,
		"mounts":         `{"spec":` + repeat(`{"volumes":[{"emptyDir":{"medium":"Memory"}}],"containers":[`, `{"volumeMounts":[{},{}]}`, `]}`) + `}`,
		"owners":         `{"metadata":` + repeat(`{"ownerReferences":[`, `{}`, `]}`) + `}`,
		"owners' flags":  `{"metadata":` + repeat(`{"ownerReferences":[`, `{"controller":true,"blockOwnerDeletion":true}`, `]}`) + `}`,
		"managed fields": `{"metadata":` + repeat(`{"managedFields":[`, `{"fieldsV1":{}}`, `]}`) + `}`,
		"labels":         `{"metadata":{"labels":` + labels + `}}`,
		"annotation":     `{"metadata":{"annotations":{"a":"` + strings.Repeat("x", 1<<20) + `"}}}`,
		"escapes":        `{"metadata":{"annotations":{"a":"` + strings.Repeat(`\n`, 1<<19) + `"}}}`,
		"guardrails":     `{"spec":` + repeat(`{"sloGuardrails":[`, `{}`, `]}`) + `}`,
		"names":          `{"spec":` + repeat(`{"excludedContainers":[`, `""`, `]}`) + `}`,
		"windows":        `{"spec":{"updateStrategy":{"schedule":` + repeat(`{"windows":[`, `{}`, `]}`) + `}}}`,
		"expressions":    `{"spec":{"targetRef":{"selector":` + repeat(`{"matchExpressions":[`, `{"values":[]}`, `]}`) + `}}}`,
		"headers":        `{"spec":{"metricsSource":{"prometheus":{"headers":` + labels + `}}}}`,
		"nested":         `{"x":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`,
		"unknown":        `{"x":` + repeat(`[`, `{}`, `]`) + `}`,
	}
	for handled, handler := range handlers {
		kind, resource := `{"group":"","version":"v1","kind":"Pod"}`, `{"group":"","version":"v1","resource":"pods"}`
		if handled == "validation" {
			kind, resource = `{"group":"attune.io","version":"v1alpha1","kind":"AttunePolicy"}`, `{"group":"attune.io","version":"v1alpha1","resource":"attunepolicies"}`
		}
		// What is made once in a process, at its first review, is not of any review.
		once := fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","kind":%s,"resource":%s,"namespace":"a","operation":"CREATE","object":{}}}`, kind, resource)
		first := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(once))
		first.Header.Set("Content-Type", "application/json")
		handler.ServeHTTP(&counted{}, first)
		for shape, object := range objects {
			t.Run(handled+" of "+shape, func(t *testing.T) {
				body := fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","kind":%s,"resource":%s,"namespace":"a","operation":"CREATE","object":%s}}`, kind, resource, object)
				r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
				r.Header.Set("Content-Type", "application/json")
				w := &counted{}
				took := allocated(func() { handler.ServeHTTP(w, r) })
				t.Logf("%d bytes of body: %.1f times as much allocated, %.1f reserved", len(body), float64(took)/float64(len(body)), float64(decoding([]byte(body)))/float64(len(body)))
				assert.LessOrEqual(t, took, decoding([]byte(body)))
			})
		}
	}
}

// counted takes an answer and keeps none of it.
type counted struct{ header http.Header }

func (c *counted) Header() http.Header {
	if c.header == nil {
		c.header = http.Header{}
	}
	return c.header
}
func (*counted) Write(p []byte) (int, error) { return len(p), nil }
func (*counted) WriteHeader(int)             {}

// allocated by f, what is garbage by now included.
func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}
