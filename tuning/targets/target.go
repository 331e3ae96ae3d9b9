package targets

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// Sized returns the containers of a template that are sized: regular ones and native sidecars (KEP-753),
// without the excluded. nil template: none. The pointers are into the template, which is the cache's own:
// do not change them.
func Sized(template *corev1.PodTemplateSpec, settings policy.Settings) []*corev1.Container {
	if template == nil {
		return nil
	}
	return slices.DeleteFunc(podview.ResizableIn(&template.Spec), func(c *corev1.Container) bool { return settings.Resize.Excluded[c.Name] })
}

// containerTarget writes a recommendation as the API type. Amounts become quantities, the confidence a
// decimal with two digits.
func containerTarget(rec recommender.Recommendation) v1alpha1.ContainerTarget {
	target := v1alpha1.ContainerTarget{
		Name:             rec.Container,
		Target:           podview.ToResources(rec.Target),
		Confidence:       strconv.FormatFloat(rec.Confidence, 'f', 2, 64),
		DataPoints:       int32(rec.DataPoints),
		MemoryLimitFloor: podview.ToPointer(recommender.Memory, rec.MemoryLimitFloor),
	}
	for _, h := range rec.Holds {
		target.Holds = append(target.Holds, v1alpha1.Hold{
			Resource: h.Resource.String(), Reason: string(h.Reason), Message: h.Message,
		})
	}
	target.Steps = slices.Grow(target.Steps, len(rec.Steps))
	for _, s := range rec.Steps {
		target.Steps = append(target.Steps, v1alpha1.Step{
			Resource: s.Resource.String(), Name: s.Name, Reason: s.Reason,
			Before: recommender.Format(s.Resource, s.Before), After: recommender.Format(s.Resource, s.After),
		})
	}
	return target
}

// held reports whether anything holds the resource.
func held(holds []v1alpha1.Hold, r recommender.Resource) bool {
	return slices.ContainsFunc(holds, func(h v1alpha1.Hold) bool { return h.Resource == r.String() })
}

// barred reports whether new pods do not get the resource either. The hold NotRunning does not bar: the
// workload has no pod, and the target is for the next one.
func barred(holds []v1alpha1.Hold, r recommender.Resource) bool {
	return slices.ContainsFunc(holds, func(h v1alpha1.Hold) bool {
		return h.Resource == r.String() && h.Reason != string(recommender.NotRunning)
	})
}

// HeldFor reports whether the resource is held for exactly this reason.
func HeldFor(holds []v1alpha1.Hold, r recommender.Resource, reason string) bool {
	return slices.ContainsFunc(holds, func(h v1alpha1.Hold) bool { return h.Resource == r.String() && h.Reason == reason })
}

// sizedByVPA reports whether a VPA sizes the container. A VPA holds both resources, so that memory alone
// is looked at.
func sizedByVPA(t v1alpha1.ContainerTarget) bool {
	return HeldFor(t.Holds, recommender.Memory, resize.ReasonVPA)
}
