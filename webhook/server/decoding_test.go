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

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/webhook/pod"
	"attune.io/attune/webhook/validation"
)

// TestDecodingIsReserved: the handlers allocate no more for a body than was reserved for it, whatever its shape.
func TestDecodingIsReserved(t *testing.T) {
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
	for handled, handler := range handlers(t) {
		kind, resource := `{"group":"","version":"v1","kind":"Pod"}`, `{"group":"","version":"v1","resource":"pods"}`
		if handled == "validation" {
			kind, resource = `{"group":"attune.io","version":"v1alpha1","kind":"AttunePolicy"}`, `{"group":"attune.io","version":"v1alpha1","resource":"attunepolicies"}`
		}
		// Allocations that happen once in a process, at its first review, do not count.
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

// mostAnswer is more than the size of any answer to a review, in bytes: 4 KiB of message and the same of causes and
// of warnings, whose characters JSON may write with six bytes each.
const mostAnswer = 80 << 10

// TestAnswersAreBounded: no text of a rejected review makes its answer long, or costs more than was reserved.
func TestAnswersAreBounded(t *testing.T) {
	const n = 20000
	long := strings.Repeat("<", 1<<20)
	unique := &strings.Builder{}
	for i := range n {
		fmt.Fprintf(unique, `"%x":"",`, i)
	}
	labels := `{` + strings.TrimSuffix(unique.String(), ",") + `}`
	specs := map[string]string{
		"days":             `{"updateStrategy":{"schedule":{"daysOfWeek":["x"` + strings.Repeat(`,""`, n) + `]}}}`,
		"days of a text":   `{"updateStrategy":{"schedule":{"daysOfWeek":["` + long + `"]}}}`,
		"labels":           `{"metricsSource":{"labels":` + labels + `}}`,
		"a label":          `{"metricsSource":{"labels":{"` + long + `":""}}}`,
		"headers":          `{"metricsSource":{"prometheus":{"address":"http://a","headers":` + strings.Replace(labels, `"0"`, `"@"`, 1) + `}}}`,
		"a header":         `{"metricsSource":{"prometheus":{"address":"http://a","headers":{"` + long + `":""}}}}`,
		"guardrail's name": `{"sloGuardrails":[{"name":"` + long + `","query":"","threshold":"","comparison":""}]}`,
		"query":            `{"sloGuardrails":[{"name":"a","query":"` + long + `(","threshold":"` + long + `","comparison":"` + long + `"}]}`,
		"guardrails":       `{"sloGuardrails":[{}` + strings.Repeat(`,{}`, 15) + `],"cpu":{"overhead":"x"},"memory":{"overhead":"x"}}`,
		"windows":          `{"updateStrategy":{"schedule":{"windows":[{"start":"` + long + `"}` + strings.Repeat(`,{}`, 23) + `]}}}`,
		"timezone":         `{"updateStrategy":{"schedule":{"timezone":"` + long + `"}}}`,
		"concurrency":      `{"updateStrategy":{"maxConcurrentResizes":"` + long + `"}}`,
		"strategy":         `{"strategy":"` + long + `"}`,
		"node's group":     `{"node":{"group":"` + long + `"}}`,
		"overhead":         `{"cpu":{"overhead":"` + long + `"}}`,
		"address":          `{"metricsSource":{"prometheus":{"address":"` + long + `"}}}`,
		"kind":             `{"targetRef":{"kind":"` + long + `"}}`,
		"selector":         `{"targetRef":{"kind":"Deployment","selector":{"matchLabels":{"` + long + `":"a"}}}}`,
		"operator":         `{"targetRef":{"kind":"Deployment","selector":{"matchExpressions":[{"key":"a","operator":"` + long[:15<<10] + `"}]}}}`,
		"namespaces":       `{"namespaceSelector":{"matchLabels":{"` + long[:15<<10] + `":"a"}}}`,
		"a duration":       `{"updateStrategy":{"cooldown":"` + long + `"}}`,
		"a number":         `{"weight":` + strings.Repeat("9", 1<<20) + `}`,
		"excluded":         `{"excludedContainers":[""` + strings.Repeat(`,""`, n) + `]}`,
	}
	// Parts outside the spec: %s stands for the long text.
	parts := map[string]string{
		"uid":       `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"%s",` + `@,"namespace":"a","operation":"CREATE","object":{}}}`,
		"namespace": `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1",` + `@,"namespace":"%s","operation":"CREATE","object":{"spec":{"metricsSource":{"prometheus":{"address":"http://a"}}}}}}`,
		"version":   `{"apiVersion":"%s","kind":"AdmissionReview","request":{"uid":"1",` + `@,"namespace":"a","operation":"CREATE","object":{}}}`,
		"kind":      `{"apiVersion":"admission.k8s.io/v1","kind":"%s","request":{"uid":"1",` + `@,"namespace":"a","operation":"CREATE","object":{}}}`,
		"object":    `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1",` + `@,"namespace":"a","operation":"CREATE","object":{"apiVersion":"attune.io/v1alpha1","kind":"%s"}}}`,
		"type":      `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1",` + `@,"namespace":"a","operation":"CREATE","object":{"metadata":{"generation":"%s"}}}}`,
		"request":   `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":"%s"}`,
	}
	type ask struct{ handler, name, body string }
	var asks []ask
	for _, kind := range []string{"AttunePolicy", "AttuneClusterPolicy", "AttuneDefaults", "AttuneNamespaceDefaults"} {
		of := fmt.Sprintf(`"kind":{"group":"attune.io","version":"v1alpha1","kind":%q}`, kind)
		for name, spec := range specs {
			asks = append(asks, ask{"validation", kind + " " + name, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1",` + of + `,"namespace":"a","operation":"CREATE","object":{"metadata":{"name":"default"},"spec":` + spec + `}}}`})
		}
		for name, body := range parts {
			asks = append(asks, ask{"validation", kind + " " + name, strings.Replace(strings.Replace(body, "@", of, 1), "%s", long, 1)})
		}
	}
	pods := `"kind":{"group":"","version":"v1","kind":"Pod"},"resource":{"group":"","version":"v1","resource":"pods"}`
	for name, body := range parts {
		asks = append(asks, ask{"pod", name, strings.Replace(strings.Replace(body, "@", pods, 1), "%s", long, 1)})
	}
	asks = append(asks, ask{"pod", "a number", `{"request":{"object":{"spec":{"priority":` + strings.Repeat("9", 1<<20) + `}}}}`})
	of := handlers(t)
	for _, a := range asks {
		t.Run(a.handler+" of "+a.name, func(t *testing.T) {
			post := func() (*counted, *http.Request) {
				r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(a.body))
				r.Header.Set("Content-Type", "application/json")
				return &counted{}, r
			}
			w, r := post()
			of[a.handler].ServeHTTP(w, r) // allocations that happen once in a process do not count
			assert.LessOrEqual(t, w.bytes, mostAnswer)
			w, r = post()
			// Twice: the buffers that earlier reviews left behind are gone, so this review pays for its own.
			runtime.GC()
			runtime.GC()
			took := allocated(func() { of[a.handler].ServeHTTP(w, r) })
			assert.LessOrEqual(t, took, decoding([]byte(a.body)), "%d bytes of body", len(a.body))
		})
	}
}

// handlers are the handlers of the webhook's port.
func handlers(t *testing.T) map[string]http.Handler {
	t.Helper()
	scheme := kruntime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	return map[string]http.Handler{
		"pod":        &pod.Handler{Known: pod.NewIndex(), Metrics: pod.NewMetrics(prometheus.NewRegistry()), Clock: clock.RealClock{}, Log: logr.Discard()},
		"validation": validation.New(scheme, fake.NewClientBuilder().WithScheme(scheme).Build(), policy.Operator{Steps: policy.DefaultSteps}),
	}
}

// counted counts the bytes of an answer and stores none of them.
type counted struct {
	header http.Header
	bytes  int
}

func (c *counted) Header() http.Header {
	if c.header == nil {
		c.header = http.Header{}
	}
	return c.header
}
func (c *counted) Write(p []byte) (int, error) {
	c.bytes += len(p)
	return len(p), nil
}
func (*counted) WriteHeader(int) {}

// allocated returns the bytes that f allocates, including garbage.
func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}
