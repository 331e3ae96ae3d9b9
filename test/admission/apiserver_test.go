package admission

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	core "k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	quotacore "k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	registry "k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/plugin/pkg/admission/limitranger"
	"k8s.io/utils/clock"
)

// shownToWebhooks is the pod as the API server hands it to webhooks: its own defaults first, then the
// limit ranges'.
func (s *scene) shownToWebhooks(posted *corev1.Pod) *corev1.Pod {
	pod := posted.DeepCopy()
	legacyscheme.Scheme.Default(pod)
	internal := toInternal(pod)
	for _, lr := range s.ranges {
		if err := limitranger.PodMutateLimitFunc(lr, internal); err != nil {
			panic(err)
		}
	}
	shown := &corev1.Pod{}
	if err := legacyscheme.Scheme.Convert(internal, shown, nil); err != nil {
		panic(err)
	}
	shown.APIVersion, shown.Kind = "v1", "Pod"
	return shown
}

func toInternal(pod *corev1.Pod) *core.Pod {
	internal := &core.Pod{}
	if err := legacyscheme.Scheme.Convert(pod.DeepCopy(), internal, nil); err != nil {
		panic(err)
	}
	return internal
}

// verdict is what the API server says of a pod after all webhooks: nil errors are consent.
type verdict struct {
	class                  core.PodQOSClass
	invalid, ranges, quota error
}

func (v *verdict) admitted() bool { return v.invalid == nil && v.ranges == nil && v.quota == nil }

var creating = genericapirequest.WithRequestInfo(
	genericapirequest.WithNamespace(context.Background(), namespace),
	&genericapirequest.RequestInfo{IsResourceRequest: true, Verb: "create", APIVersion: "v1", Resource: "pods", Namespace: namespace},
)

func (s *scene) judge(pod *corev1.Pod) (v verdict) {
	internal := toInternal(pod)
	internal.Namespace, internal.Name = namespace, internal.GenerateName+"x2k4b"
	internal.UID, internal.CreationTimestamp = uid(s.number), metav1.NewTime(now)
	v.invalid = rest.BeforeCreate(registry.Strategy, creating, internal)
	v.class = internal.Status.QOSClass
	for _, lr := range s.ranges {
		if err := limitranger.PodValidateLimitFunc(lr, internal); err != nil && v.ranges == nil {
			v.ranges = fmt.Errorf("limit range %s: %w", lr.Name, err)
		}
	}
	v.quota = s.checkQuota(internal)
	return v
}

var evaluator = quotacore.NewPodEvaluator(nil, clock.RealClock{})

func (s *scene) checkQuota(pod *core.Pod) error {
	if len(s.quotas) == 0 {
		return nil
	}
	quotas := make([]corev1.ResourceQuota, len(s.quotas))
	for i := range s.quotas {
		quotas[i] = *s.quotas[i]
	}
	attributes := admission.NewAttributesRecord(pod, nil, core.SchemeGroupVersion.WithKind("Pod"), namespace, pod.Name,
		core.SchemeGroupVersion.WithResource("pods"), "", admission.Create, &metav1.CreateOptions{}, false, nil)
	_, err := resourcequota.CheckRequest(quotas, attributes, evaluator, nil)
	return err
}
