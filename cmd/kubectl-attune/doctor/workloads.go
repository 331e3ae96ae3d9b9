package doctor

import (
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"attune.io/attune/internal/workload"
)

// withdrawn reports the workloads whose pods were rejected or did not start with admission resources.
func withdrawn(seen *Seen, f *findings) {
	if f.unreadable("AttuneRecommendations", seen.Recommendations.Err) {
		return
	}
	for _, rec := range seen.Recommendations.all() {
		w := rec.Status.AdmissionWithdrawn
		if w == nil {
			continue
		}
		id := workload.IdentityOf(rec)
		f.add(Warning, "kubectl attune explain "+id.String()+" --namespace "+id.Namespace, "new pods of %s in namespace %s keep the resources of their template since %s, %s: %s",
			id, id.Namespace, w.Since.UTC().Format(time.RFC3339), w.Reason, w.Message)
	}
	f.fine("no pods were rejected or did not start with admission resources")
}

// longStanding is how long a rollout creates no pod until it counts as stuck.
const longStanding = 30 * time.Minute

// rollouts reports the workloads of policies whose rollout is stuck: its progress deadline is exceeded, or it has created no
// pod for longStanding and nobody has changed the workload since.
func rollouts(seen *Seen, f *findings) {
	unread := f.unreadable("AttuneRecommendations", seen.Recommendations.Err)
	unread = f.unreadable("pods", seen.Neighbours.Pods.Err) || unread
	unread = readWorkloads(f, "Deployments", seen.Workloads.Deployments) || unread
	unread = readWorkloads(f, "StatefulSets", seen.Workloads.StatefulSets) || unread
	if readWorkloads(f, "DaemonSets", seen.Workloads.DaemonSets) || unread {
		return
	}
	managed, newest := map[workload.Identity]bool{}, seen.newestPods()
	for _, rec := range seen.Recommendations.all() {
		managed[workload.IdentityOf(rec)] = true
	}
	for _, r := range seen.Workloads.inProgress() {
		since := newest[r.Identity]
		if r.changed.After(since) {
			since = r.changed
		}
		if !managed[r.Identity] || r.exceeded == "" && seen.Now.Sub(since) <= longStanding {
			continue
		}
		f.add(Warning, "kubectl describe "+strings.ToLower(string(r.Kind))+" "+r.Name+" --namespace "+r.Namespace,
			"the rollout of %s in namespace %s is stuck since %s: %s", r.Identity, r.Namespace, since.UTC().Format(time.RFC3339), strings.TrimSuffix(r.Rollout.Reason+"; "+r.exceeded, "; "))
	}
	f.fine("no rollout of a workload with a policy is stuck")
}

// newestPods returns when the newest pod of each workload was created.
func (s *Seen) newestPods() map[workload.Identity]time.Time {
	newest := map[workload.Identity]time.Time{}
	for _, pod := range s.Neighbours.Pods.all() {
		if id, owned := workload.OwnerOf(pod, pod.Namespace, nil); owned && pod.CreationTimestamp.After(newest[id]) {
			newest[id] = pod.CreationTimestamp.Time
		}
	}
	return newest
}

// rollout is a rollout in progress.
type rollout struct {
	workload.Workload
	// changed is the last change of the workload.
	changed time.Time
	// exceeded is the sentence of the Deployment's controller about the progress deadline; empty if it is not exceeded.
	exceeded string
}

// inProgress returns the workloads with a rollout in progress.
func (w *Workloads) inProgress() (all []rollout) {
	add := func(object runtime.Object, meta metav1.Object, exceeded string) {
		if of, ok := workload.From(object); ok && of.Rollout.InProgress {
			all = append(all, rollout{of, lastChange(meta), exceeded})
		}
	}
	for _, d := range w.Deployments.all() {
		exceeded := ""
		for _, c := range d.Status.Conditions {
			if c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse {
				exceeded = c.Message
			}
		}
		add(d, d, exceeded)
	}
	for _, s := range w.StatefulSets.all() {
		add(s, s, "")
	}
	for _, d := range w.DaemonSets.all() {
		add(d, d, "")
	}
	return all
}

// readWorkloads records an error of reading, or that only the first workloads were read, and reports an error.
func readWorkloads[T any](f *findings, what string, of Read[T]) bool {
	if of.Cut {
		f.add(Unknown, "", "only the first %d %s were checked: use -n for one namespace", len(of.Value), what)
	}
	return f.unreadable(what, of.Err)
}

// lastChange returns when a user or a controller last changed an object, without changes of its status and its scale.
func lastChange(of metav1.Object) (last time.Time) {
	last = of.GetCreationTimestamp().Time
	for _, e := range of.GetManagedFields() {
		if e.Subresource == "" && e.Time != nil && e.Time.After(last) {
			last = e.Time.Time
		}
	}
	return last
}
