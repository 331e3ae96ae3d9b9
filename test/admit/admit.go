// Package admit has the webhook see a new pod, and does with its answer what the API server does.
package admit

import (
	"encoding/json"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"attune.io/attune/webhook/pod"
)

// Pod changes a new pod as the webhook wants it.
func Pod(webhook *pod.Handler, of *corev1.Pod) error {
	before, err := json.Marshal(of)
	if err != nil {
		return err
	}
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "review", Operation: admissionv1.Create, Namespace: of.Namespace,
			Kind:     metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
			Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
			Object:   runtime.RawExtension{Raw: before},
		},
	})
	if err != nil {
		return err
	}
	answer, err := webhook.Answer(body)
	if err != nil {
		return err
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(answer, &review); err != nil || len(review.Response.Patch) == 0 {
		return err
	}
	patch, err := jsonpatch.DecodePatch(review.Response.Patch)
	if err != nil {
		return err
	}
	after, err := patch.Apply(before)
	if err != nil {
		return err
	}
	*of = corev1.Pod{}
	return json.Unmarshal(after, of)
}
