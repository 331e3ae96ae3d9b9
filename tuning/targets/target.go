package targets

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/clip"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// Sized returns the containers of a template that attune sizes: regular ones and native sidecars (KEP-753), without
// excluded ones; nil template: no containers. The pointers are into the template of the cache: do not change them.
func Sized(template *corev1.PodTemplateSpec, settings policy.Settings) []*corev1.Container {
	if template == nil {
		return nil
	}
	return slices.DeleteFunc(podview.ResizableIn(&template.Spec), func(c *corev1.Container) bool { return settings.Resize.Excludes(c.Name) })
}

// SizedNames returns the names of the Sized containers.
func SizedNames(template *corev1.PodTemplateSpec, settings policy.Settings) []string {
	return podview.Map(Sized(template, settings), func(c *corev1.Container) string { return c.Name })
}

// containerTarget converts a recommendation to the API type. Amounts become quantities, the confidence a decimal with
// two digits.
func containerTarget(rec recommender.Recommendation) v1alpha1.ContainerTarget {
	target := v1alpha1.ContainerTarget{
		Name:             rec.Container,
		Target:           podview.ToResources(rec.Target),
		Confidence:       strconv.FormatFloat(rec.Confidence, 'f', 2, 64),
		DataPoints:       int32(rec.DataPoints),
		MemoryLimitFloor: podview.ToPointer(recommender.Memory, rec.MemoryLimitFloor),
		CPULimitFloor:    podview.ToPointer(recommender.CPU, rec.CPULimitFloor),
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

// barred reports whether a hold also keeps the resource from new pods. Two holds do not. NotRunning: the workload has
// no pod, and the target is for the next one. FollowsItsLimit: a new pod must not get less than the running ones.
func barred(holds []v1alpha1.Hold, r recommender.Resource) bool {
	return slices.ContainsFunc(holds, func(h v1alpha1.Hold) bool {
		return h.Resource == r.String() && h.Reason != string(recommender.NotRunning) && h.Reason != string(recommender.FollowsItsLimit)
	})
}

// stepOmitted is the name of the step that replaces omitted steps.
const stepOmitted = "omitted"

// Brief shortens explanations that are too long for one object (more than resize.StepsBytes as JSON). It starts with
// the last container: first it removes steps without a change, then it replaces all steps of a container by one step
// named omitted. It changes the steps in place; the targets stay the same.
func Brief(targets []v1alpha1.ContainerTarget) {
	total := 0
	for i := range targets {
		total += len(clip.JSON(targets[i].Steps))
	}
	changing := func(steps []v1alpha1.Step) []v1alpha1.Step {
		return slices.DeleteFunc(slices.Clone(steps), func(s v1alpha1.Step) bool { return s.Before == s.After })
	}
	omitted := func([]v1alpha1.Step) []v1alpha1.Step {
		return []v1alpha1.Step{{Resource: "cpu", Name: stepOmitted, Reason: fmt.Sprintf("the steps are omitted: the workload has %d containers", len(targets))}}
	}
	for _, shorten := range []func([]v1alpha1.Step) []v1alpha1.Step{changing, omitted} {
		for i := len(targets) - 1; i >= 0 && total > resize.StepsBytes; i-- {
			before := len(clip.JSON(targets[i].Steps))
			targets[i].Steps = shorten(targets[i].Steps)
			total += len(clip.JSON(targets[i].Steps)) - before
		}
	}
}

// templateOverride returns a container's request in the template while the user who changed it may know more than the
// history: until there can be minimumDataPoints samples of the new generation. 0: later, or if the request was never
// changed.
func (v View) templateOverride(c *corev1.Container, r recommender.Resource) recommender.Amount {
	request := podview.ReadSpec(c.Resources)[r].Request
	since, changed := changedSince(v.Status.Originals, c.Name, r, request, v.Now)
	if !changed || v.Now.Sub(since) >= newFor(v.Settings) {
		return 0
	}
	return request
}

// newFor returns how long a template counts as new: the time in which enough data of it can be collected.
func newFor(settings policy.Settings) time.Duration {
	return time.Duration(settings.Recommender.MinimumDataPoints) * settings.Recommender.QueryStep
}

// changedSince returns when pods of a template with this request were first seen, and whether pods of a template with
// another request were seen before. Without the second condition, a workload that is new to attune would count as
// changed. Templates are compared with templates: other webhooks may create all pods with other requests.
func changedSince(originals []v1alpha1.Originals, container string, r recommender.Resource, request recommender.Amount, now time.Time) (time.Time, bool) {
	if request == 0 {
		return now, false
	}
	since, others := now, false
	for _, o := range originals {
		if templateRequest(o, container, r) == request && seen(o).Before(since) {
			since = seen(o)
		}
	}
	for _, o := range originals {
		other := templateRequest(o, container, r)
		others = others || other != request && other > 0 && seen(o).Before(since)
	}
	return since, others
}

// templateRequest returns a container's request in the template of a generation; 0: not known or not set.
func templateRequest(o v1alpha1.Originals, container string, r recommender.Resource) recommender.Amount {
	named := func(c v1alpha1.ContainerResources) bool { return c.Name == container }
	if slices.ContainsFunc(o.Template, named) {
		return podview.FromResources(podview.First(o.Template, named).Resources)[r].Request
	}
	return podview.FromResources(podview.First(o.Containers, named).Resources)[r].Request
}

// seen returns when pods of a generation were first seen; zero: not stored.
func seen(o v1alpha1.Originals) time.Time { return ptr.Deref(o.Since, metav1.Time{}).Time }

// atLeastTemplate raises a verified size to the requests that a user has recently written into the template
// (templateOverride).
func (v View) atLeastTemplate(container string, size recommender.Size) recommender.Size {
	for _, c := range Sized(v.Workload.Template, v.Settings) {
		if c.Name != container {
			continue
		}
		for _, r := range recommender.Resources {
			size[r].Request = max(size[r].Request, v.templateOverride(c, r))
		}
	}
	return size
}

// original returns the container's size without attune: its template's, or, if the template sets nothing, the size
// that a LimitRange gave the pods of the newest stored generation.
func (v View) original(c *corev1.Container) recommender.Size {
	size := podview.ReadSpec(c.Resources)
	if size != (recommender.Size{}) || len(v.Status.Originals) == 0 {
		return size
	}
	newest := v.Status.Originals[len(v.Status.Originals)-1]
	return podview.FromResources(podview.First(newest.Containers, func(o v1alpha1.ContainerResources) bool { return o.Name == c.Name }).Resources)
}

// OriginalRequests returns the requests of containers without attune; 0: it has none, or attune does not size it.
func OriginalRequests(v View) func(container string, r recommender.Resource) recommender.Amount {
	return func(container string, r recommender.Resource) recommender.Amount {
		return v.OriginalOf(container)[r].Request
	}
}

// TemplateRequests returns the requests of containers in the newest template (autoscale.Fleet.Template).
func TemplateRequests(w workload.Workload) func(container string, r recommender.Resource) (recommender.Amount, bool) {
	return func(container string, r recommender.Resource) (recommender.Amount, bool) {
		size, has := podview.TemplateSize(w.Template, container)
		return size[r].Request, has || w.Template == nil
	}
}

// OriginalOf returns the original size of a container by its name; zero: attune does not size it.
func (v View) OriginalOf(container string) recommender.Size {
	if c := podview.First(Sized(v.Workload.Template, v.Settings), func(c *corev1.Container) bool { return c.Name == container }); c != nil {
		return v.original(c)
	}
	return recommender.Size{}
}
