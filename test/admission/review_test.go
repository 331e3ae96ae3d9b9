package admission

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	webhookrequest "k8s.io/apiserver/pkg/admission/plugin/webhook/request"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	clocktesting "k8s.io/utils/clock/testing"

	"attune.io/attune/webhook/pod"
)

var metrics = pod.NewMetrics(prometheus.NewRegistry())

// handler is the webhook as it stands once its cache has synced.
func (s *scene) handler() *pod.Handler {
	known := pod.NewIndex()
	known.Set(s.rec)
	for _, lr := range s.ranges {
		known.Set(lr)
	}
	for _, q := range s.quotas {
		known.Set(q)
	}
	return &pod.Handler{Known: known, Metrics: metrics, Clock: clocktesting.NewFakePassiveClock(now), Log: logr.Discard()}
}

// answer is what the webhook made of a pod.
type answer struct {
	reason string
	patch  []byte
	after  *corev1.Pod // with the patch, and defaulted anew
}

// ask sends a pod through the webhook, bytes in and bytes out, and does with the answer what the API
// server does. A dry run must get the very same answer.
func (s *scene) ask(h *pod.Handler, shown *corev1.Pod) (*answer, error) {
	object, err := json.Marshal(shown)
	if err != nil {
		return nil, err
	}
	out, err := h.Answer(s.review(object, false))
	if err != nil {
		return nil, fmt.Errorf("no answer: %w", err)
	}
	if dry, err := h.Answer(s.review(object, true)); err != nil || !bytes.Equal(out, dry) {
		return nil, fmt.Errorf("a dry run is answered otherwise: %s, not %s (%w)", dry, out, err)
	}
	return s.read(out, object, shown)
}

func (s *scene) review(object []byte, dryRun bool) []byte {
	body, err := json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: uid(s.number), Namespace: namespace, Operation: admissionv1.Create, DryRun: &dryRun,
			Kind:     metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
			Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
			Object:   runtime.RawExtension{Raw: object},
		},
	})
	if err != nil {
		panic(err)
	}
	return body
}

func (s *scene) read(out, object []byte, shown *corev1.Pod) (*answer, error) {
	var review admissionv1.AdmissionReview
	if err := utiljson.Unmarshal(out, &review); err != nil {
		return nil, fmt.Errorf("the answer is no JSON: %w: %s", err, out)
	}
	review.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
	response, err := webhookrequest.VerifyAdmissionResponse(uid(s.number), true, &review)
	if err != nil || !response.Allowed {
		return nil, fmt.Errorf("the API server does not take the answer: %w: %s", err, out)
	}
	a := &answer{reason: response.AuditAnnotations["decision"], patch: response.Patch, after: shown}
	if len(a.patch) == 0 {
		return a, nil
	}
	if a.after, err = applied(object, a.patch); err != nil {
		return nil, fmt.Errorf("the patch does not apply: %w: %s", err, a.patch)
	}
	return a, nil
}

func applied(object, patch []byte) (*corev1.Pod, error) {
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, err
	}
	if object, err = operations.Apply(object); err != nil {
		return nil, err
	}
	after := &corev1.Pod{}
	if err := utiljson.Unmarshal(object, after); err != nil {
		return nil, err
	}
	legacyscheme.Scheme.Default(after)
	return after, nil
}
