package targets

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// templateOverride returns a container's own request in the template while a person who changed it may
// know more than the history does: until there can be minimumDataPoints steps of the new generation.
// Afterwards, and where the request was never changed, it is 0.
func (v View) templateOverride(c *corev1.Container, r recommender.Resource) recommender.Amount {
	request := podview.ReadSpec(c.Resources)[r].Request
	since, changed := changedSince(v.Status.Originals, c.Name, r, request, v.Now)
	if !changed || v.Now.Sub(since) >= newFor(v.Settings) {
		return 0
	}
	return request
}

// newFor is how long a template counts as new: the time in which enough data of it can be collected.
func newFor(settings policy.Settings) time.Duration {
	return time.Duration(settings.Recommender.MinimumDataPoints) * settings.Recommender.QueryStep
}

// changedSince returns when pods with this request were first seen, and whether pods with another request
// had been seen before. Without the second condition, a workload that attune meets for the first time
// would count as changed.
func changedSince(originals []v1alpha1.Originals, container string, r recommender.Resource, request recommender.Amount, now time.Time) (time.Time, bool) {
	if request == 0 {
		return now, false
	}
	since, others := now, false
	for _, o := range originals {
		for _, c := range o.Containers {
			if c.Name == container && podview.FromResources(c.Resources)[r].Request == request && seen(o).Before(since) {
				since = seen(o)
			}
		}
	}
	for _, o := range originals {
		for _, c := range o.Containers {
			other := podview.FromResources(c.Resources)[r].Request
			others = others || c.Name == container && other != request && other > 0 && seen(o).Before(since)
		}
	}
	return since, others
}

// seen is when pods of a generation were first seen; zero: it was not noted.
func seen(o v1alpha1.Originals) time.Time { return ptr.Deref(o.Since, metav1.Time{}).Time }

// atLeastTemplate raises a kept size to what a person has recently written into the template
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
