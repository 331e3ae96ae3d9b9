// Package bridge publishes attune's recommendations as VerticalPodAutoscaler objects (autoscaling.k8s.io/v1), one for
// each workload with a recommendation. Karpenter, Goldilocks, kube-state-metrics and dashboards read such objects.
// VPA's own components must not act on them.
//
//   - vpa.go: the content of an object, in the few fields of VPA's API that the bridge fills. It is pure.
//   - loop.go: one pass of the loop, and its reads. The loop publishes only while the cluster serves the kind and VPA's
//     admission controller is not installed. write.go: the writes of a pass, and the backoff of rejected ones.
//
// Start reading with Of and Loop.Pass.
package bridge

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/clip"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/webhook/pod"
)

// VPA is the part of a VerticalPodAutoscaler that the bridge writes.
type VPA struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              Spec   `json:"spec"`
	Status            Status `json:"status"`
}

// Spec names the workload, and the resources that new pods get.
type Spec struct {
	TargetRef      TargetRef       `json:"targetRef"`
	UpdatePolicy   UpdatePolicy    `json:"updatePolicy"`
	ResourcePolicy *ResourcePolicy `json:"resourcePolicy,omitempty"`
	Recommenders   []Recommender   `json:"recommenders"`
}

// TargetRef names the workload.
type TargetRef struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
}

// UpdatePolicy has the mode: Initial or Off.
type UpdatePolicy struct {
	UpdateMode string `json:"updateMode"`
}

// ResourcePolicy has a policy for each container of the recommendation.
type ResourcePolicy struct {
	ContainerPolicies []ContainerPolicy `json:"containerPolicies"`
}

// ContainerPolicy lists the resources whose target new pods get. Mode Off: none of them.
type ContainerPolicy struct {
	ContainerName       string                `json:"containerName"`
	Mode                string                `json:"mode,omitempty"`
	ControlledResources []corev1.ResourceName `json:"controlledResources,omitempty"`
	StartupBoost        *StartupBoost         `json:"startupBoost,omitempty"`
}

// StartupBoost is the extra CPU that a new pod gets until it has started.
type StartupBoost struct {
	CPU Boost `json:"cpu"`
}

// Boost of the type Quantity is added to the target.
type Boost struct {
	Type     string `json:"type"`
	Quantity string `json:"quantity"`
}

// Recommender names the component that writes the status.
type Recommender struct {
	Name string `json:"name"`
}

// Status is the recommendation.
type Status struct {
	Recommendation Recommendation     `json:"recommendation"`
	Conditions     []metav1.Condition `json:"conditions"`
}

// Recommendation has the containers in the order of the AttuneRecommendation.
type Recommendation struct {
	ContainerRecommendations []ContainerRecommendation `json:"containerRecommendations"`
}

// ContainerRecommendation has requests. A resource without a target is in none of the lists.
type ContainerRecommendation struct {
	ContainerName string `json:"containerName"`
	// Target is the request that the next pod is given; in the mode Off, the one that is recommended.
	Target corev1.ResourceList `json:"target"`
	// LowerBound and UpperBound are the request and the limit that are recommended, widened to enclose the target.
	LowerBound corev1.ResourceList `json:"lowerBound"`
	UpperBound corev1.ResourceList `json:"upperBound"`
	// UncappedTarget is the request that is recommended.
	UncappedTarget corev1.ResourceList `json:"uncappedTarget"`
}

// View is the input of Of apart from the recommendation.
type View struct {
	// Template of the workload's pods; nil: the workload was deleted or not found, and Of does not predict new pods.
	Template *corev1.PodTemplateSpec
	// Seeded: the webhook receives the new pods of the namespace.
	Seeded bool
	// Limits are the namespace's LimitRanges.
	Limits []*corev1.LimitRange
	// Owner of the object: deleting the owner garbage-collects the object.
	Owner metav1.OwnerReference
	// Now is the time at which the seed must be valid.
	Now time.Time
}

// Of returns the VPA of a workload. It returns nil and false if no container has a target, or if the workload or its
// recommendation is deleted. The annotation PublishedAnnotation is a digest of all other content: two VPAs are equal
// if and only if their digests are.
//
// The mode is Initial if new pods get other requests than their template has, and Off if attune only recommends.
// VPA's updater acts on neither.
func Of(rec *v1alpha1.AttuneRecommendation, v View) (*VPA, bool) {
	if rec.DeletionTimestamp != nil || rec.Status.GoneSince != nil {
		return nil, false
	}
	id := workload.IdentityOf(rec)
	predicted := next(rec, v)
	out := &VPA{
		TypeMeta: metav1.TypeMeta{APIVersion: autoscale.VPAKind.GroupVersion().String(), Kind: autoscale.VPAKind.Kind},
		ObjectMeta: metav1.ObjectMeta{
			Name: autoscale.VPAName(id), Namespace: id.Namespace,
			Labels:          map[string]string{autoscale.ManagedByLabel: autoscale.ManagedBy},
			OwnerReferences: []metav1.OwnerReference{v.Owner},
		},
		Spec: Spec{
			TargetRef:    TargetRef{APIVersion: apiVersion(id.Kind), Kind: string(id.Kind), Name: id.Name},
			UpdatePolicy: UpdatePolicy{UpdateMode: autoscale.VPAModeOff},
			Recommenders: []Recommender{{Name: autoscale.Recommender}},
		},
	}
	var policies []ContainerPolicy
	for i := range rec.Spec.Containers {
		t := &rec.Spec.Containers[i]
		b := podview.FirstIn(predicted, func(b *pod.Predicted) bool { return b.Name == t.Name })
		if said, ok := recommendation(t, b); ok {
			out.Status.Recommendation.ContainerRecommendations = append(out.Status.Recommendation.ContainerRecommendations, said)
			policies = append(policies, policy(t.Name, b))
		}
	}
	if len(policies) == 0 {
		return nil, false
	}
	if slices.ContainsFunc(policies, func(p ContainerPolicy) bool { return p.Mode != autoscale.VPAModeOff }) {
		out.Spec.UpdatePolicy.UpdateMode = autoscale.VPAModeInitial
		out.Spec.ResourcePolicy = &ResourcePolicy{policies}
	}
	out.Status.Conditions = []metav1.Condition{{
		Type: "RecommendationProvided", Status: metav1.ConditionTrue, LastTransitionTime: rec.CreationTimestamp, Reason: "AttuneRecommendation",
		Message: fmt.Sprintf("kubectl attune explain %s --namespace %s shows how it was computed", id, id.Namespace),
	}}
	out.Annotations = map[string]string{v1alpha1.PublishedAnnotation: clip.Digest(out, 12)}
	return out, true
}

// next predicts the containers of the next pod; nil: the webhook will not size it, or readers cannot look up its
// workload. Karpenter may read only workloads of the group apps, and waits forever for others.
func next(rec *v1alpha1.AttuneRecommendation, v View) []pod.Predicted {
	if v.Template == nil || !v.Seeded || workload.GroupKindOf(rec.Spec.Workload.Kind).Group != appsv1.GroupName {
		return nil
	}
	template := v.Template
	if n := len(rec.Status.Originals); n > 0 {
		// The next pod belongs to the newest generation: what attune learned about that generation applies to it.
		template = template.DeepCopy()
		metav1.SetMetaDataLabel(&template.ObjectMeta, "pod-template-hash", rec.Status.Originals[n-1].TemplateHash)
	}
	// The webhook does not change a pod whose template cannot be read.
	predicted, _ := pod.PredictSeed(template, pod.Read(rec), v.Limits, v.Now)
	return predicted
}

// apiVersion returns the group and the version by which a reader finds a workload.
func apiVersion(kind v1alpha1.WorkloadKind) string {
	group := workload.GroupKindOf(kind).Group
	if group == workload.ArgoGroupVersion.Group {
		return workload.ArgoGroupVersion.String()
	}
	return schema.GroupVersion{Group: group, Version: "v1"}.String()
}

// recommendation returns the recommendation for a container; false: there is no target.
func recommendation(t *v1alpha1.ContainerTarget, b *pod.Predicted) (ContainerRecommendation, bool) {
	out := ContainerRecommendation{
		ContainerName: t.Name, Target: corev1.ResourceList{}, LowerBound: corev1.ResourceList{}, UpperBound: corev1.ResourceList{}, UncappedTarget: corev1.ResourceList{},
	}
	size := podview.FromResources(t.Target)
	for _, r := range recommender.Resources {
		wanted, target := size[r].Request, size[r].Request
		if given(b, r) {
			target = b.Requests[r]
		}
		if target <= 0 {
			continue
		}
		if wanted <= 0 {
			wanted = target
		}
		name := corev1.ResourceName(r.String())
		out.Target[name] = podview.Quantity(r, target)
		out.LowerBound[name] = podview.Quantity(r, min(wanted, target))
		out.UpperBound[name] = podview.Quantity(r, max(wanted, target, size[r].Limit))
		out.UncappedTarget[name] = podview.Quantity(r, wanted)
	}
	return out, len(out.Target) > 0
}

// given reports whether the webhook sets the request of a resource. A pod that gets no request, to keep its QoS
// class, keeps its template.
func given(b *pod.Predicted, r recommender.Resource) bool {
	return b != nil && b.Seeded[r] && b.Requests[r] > 0
}

// policy lists the resources of a container that the webhook sets in new pods.
func policy(container string, b *pod.Predicted) ContainerPolicy {
	out := ContainerPolicy{ContainerName: container}
	if b != nil {
		for _, r := range recommender.Resources {
			if given(b, r) {
				out.ControlledResources = append(out.ControlledResources, corev1.ResourceName(r.String()))
			}
		}
		if b.Boost > 0 {
			more := podview.Quantity(recommender.CPU, b.Boost)
			out.StartupBoost = &StartupBoost{CPU: Boost{Type: "Quantity", Quantity: more.String()}}
		}
	}
	if len(out.ControlledResources) == 0 {
		out.Mode = autoscale.VPAModeOff
	}
	return out
}
