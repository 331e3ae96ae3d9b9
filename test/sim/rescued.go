package sim

import (
	"encoding/json"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/sim/api"
)

const (
	// rescuedWithin is how long after an OOM kill the original limit has to be asked for, rescuedFor how long a second kill
	// counts as that of the same limit.
	rescuedWithin, rescuedFor = time.Minute, time.Hour
)

// rescued: no container below its template is killed twice within an hour by a size of attune, whatever the policy says,
// and whether there is one: the switches that stop new sizes stop no rescue.
//
// A kill counts where the limit in force was below that of the template and attune gave it, at admission or by the last
// resize of the pod. The second one is a violation where it is more than a minute and at most an hour later, and attune has
// not asked in between for at least the limit of the template, whatever the API server or the node answered. The time
// begins anew while the operator is away, its calls fail or its watches lag. It is no violation where the API server would
// refuse a resize to the resources of the template, or a LimitRange would add limits by it, and where the policy says autoRevert: false, or said so last.
type rescued struct {
	deaf
	*scene
	// keeps: the policy of a recommendation says autoRevert: false.
	keeps func(types.NamespacedName) bool
	// restorable: the API server would let a pod have other resources.
	restorable func(pod *corev1.Pod, to map[string]corev1.ResourceRequirements) bool
	templates  templates
	// ours: the last resize of a pod is attune's.
	ours map[types.UID]bool
	// first kill of a container below its template, by pod and container.
	first map[string]kill
}

func newRescued(s *scene, keeps func(types.NamespacedName) bool, restorable func(*corev1.Pod, map[string]corev1.ResourceRequirements) bool) *rescued {
	return &rescued{scene: s, keeps: keeps, restorable: restorable, templates: templates{}, ours: map[types.UID]bool{}, first: map[string]kill{}}
}

// wrote: attune asked for another size, or a person did.
func (r *rescued) wrote(w api.Write) {
	if w.Kind != "Pod" || w.Verb != "patch/resize" {
		return
	}
	uid := types.UID(w.UID)
	if strings.HasPrefix(w.Actor, "attune") {
		if w.Answer == nil || w.Lost {
			r.ours[uid] = true
		}
		r.asked(uid, w.Body)
	} else if w.Answer == nil {
		r.ours[uid] = false
	}
}

// asked: a patch of a resize with at least the limit of the template is what a killed container waits for.
func (r *rescued) asked(uid types.UID, body string) {
	var patch struct {
		Spec struct {
			Containers []corev1.Container `json:"containers"`
		} `json:"spec"`
	}
	if json.Unmarshal([]byte(body), &patch) != nil {
		return
	}
	for _, c := range patch.Spec.Containers {
		if limitOf(c) >= r.templates.limit(uid, c.Name) {
			delete(r.first, string(uid)+" "+c.Name)
		}
	}
}

func (r *rescued) changed(e api.Event) {
	pod, ok := e.Object.(*corev1.Pod)
	if !ok {
		return
	}
	r.templates.see(e)
	if e.Type == watch.Deleted {
		delete(r.ours, pod.UID)
		for _, c := range pod.Spec.Containers {
			delete(r.first, string(pod.UID)+" "+c.Name)
		}
		return
	}
	of := r.workloadOf("Pod", key2(pod.Namespace, pod.Name))
	for _, k := range endsIn(e, of, r.now()) {
		r.killed(k, pod)
	}
}

func (r *rescued) killed(k kill, pod *corev1.Pod) {
	key, template := string(k.uid)+" "+k.container, r.templates.limit(k.uid, k.container)
	given, resized := r.ours[k.uid]
	if !resized {
		given = pod.Annotations[v1alpha1.SeededAnnotation] != ""
	}
	if k.limit == 0 || k.limit >= template || !given || r.keeps(k.of) {
		return
	}
	before, known := r.first[key]
	late := r.now().Sub(before.at)
	switch {
	case !known || late > rescuedFor || r.excused():
		r.first[key] = k
	case late > rescuedWithin && r.restorable(pod, r.templates[k.uid]):
		delete(r.first, key)
		r.violate("rescued", k.of.String(), "container %s of pod %s was killed with a limit of %d bytes at %s, and again now with %d; its template has %d, which attune has not asked for in between",
			k.container, k.pod, before.limit, before.at, k.limit, template)
	}
}

// tick: what keeps attune from asking is no fault of its size.
func (r *rescued) tick() {
	if !r.excused() {
		return
	}
	for key, k := range r.first {
		k.at = r.now()
		r.first[key] = k
	}
}

// endsIn are the OOM kills that a change of a pod tells of first, with the limits that were in force: what a status shows of
// a container that waits to start again is what it starts with.
func endsIn(e api.Event, of types.NamespacedName, now time.Time) (kills []kill) {
	after, ok := e.Object.(*corev1.Pod)
	before, had := e.Old.(*corev1.Pod)
	if !ok || !had || e.Type != watch.Modified || of.Name == "" {
		return nil
	}
	for _, s := range after.Status.ContainerStatuses {
		ended := s.State.Terminated
		if ended == nil {
			ended = s.LastTerminationState.Terminated
		}
		if ended == nil || ended.Reason != "OOMKilled" {
			continue
		}
		for _, b := range before.Status.ContainerStatuses {
			if b.Name == s.Name && b.State.Running != nil && b.ContainerID == ended.ContainerID && b.Resources != nil {
				limit := b.Resources.Limits[corev1.ResourceMemory]
				kills = append(kills, kill{of, after.Name, s.Name, after.UID, limit.Value(), now})
			}
		}
	}
	return kills
}

// templates are the resources that pods would have without attune, by uid and container.
type templates map[types.UID]map[string]corev1.ResourceRequirements

// see a change of a pod.
func (t templates) see(e api.Event) {
	pod, ok := e.Object.(*corev1.Pod)
	if !ok {
		return
	}
	switch e.Type {
	case watch.Added:
		t[pod.UID] = templateResources(pod)
	case watch.Deleted:
		delete(t, pod.UID)
	}
}

// limit of memory, in bytes; 0: none.
func (t templates) limit(uid types.UID, container string) int64 {
	r := t[uid][container]
	return r.Limits.Memory().Value()
}

// templateResources are what a new pod would have without attune: what was noted when it was given others, or what it has.
func templateResources(pod *corev1.Pod) map[string]corev1.ResourceRequirements {
	all := map[string]corev1.ResourceRequirements{}
	for _, c := range pod.Spec.Containers {
		all[c.Name] = *c.Resources.DeepCopy()
	}
	var seeded v1alpha1.Seeded
	if json.Unmarshal([]byte(pod.Annotations[v1alpha1.SeededAnnotation]), &seeded) != nil {
		return all
	}
	for _, was := range seeded.Original {
		r, found := all[was.Name]
		if !found {
			continue
		}
		r.Requests, r.Limits = corev1.ResourceList{}, corev1.ResourceList{}
		if was.CPURequest != nil {
			r.Requests[corev1.ResourceCPU] = *was.CPURequest
		}
		if was.MemoryRequest != nil {
			r.Requests[corev1.ResourceMemory] = *was.MemoryRequest
		}
		if was.CPULimit != nil {
			r.Limits[corev1.ResourceCPU] = *was.CPULimit
		}
		if was.MemoryLimit != nil {
			r.Limits[corev1.ResourceMemory] = *was.MemoryLimit
		}
		all[was.Name] = r
	}
	return all
}

// withResources is a pod with other resources of its containers.
func withResources(pod *corev1.Pod, all map[string]corev1.ResourceRequirements) *corev1.Pod {
	changed := pod.DeepCopy()
	for i := range changed.Spec.Containers {
		c := &changed.Spec.Containers[i]
		if r, found := all[c.Name]; found {
			c.Resources = r
		}
	}
	return changed
}

// restorable: the API server would let a pod have other resources now.
func (w *world) restorable(pod *corev1.Pod, to map[string]corev1.ResourceRequirements) bool {
	if w.plan.Refuse != nil && w.plan.Refuse("attune/workload", "patch/resize", pod) != nil {
		return false
	}
	return w.server.AcceptsResize(pod, withResources(pod, to)) == nil
}

// keepsSizes: the policy of a recommendation says autoRevert: false.
func (w *world) keepsSizes(of types.NamespacedName) bool {
	rec, found := w.server.Peek(&v1alpha1.AttuneRecommendation{}, of).(*v1alpha1.AttuneRecommendation)
	if !found {
		return w.kept[of]
	}
	if p := w.policyOf(rec); p != nil {
		u := p.Spec.UpdateStrategy
		w.kept[of] = u != nil && u.AutoRevert != nil && !*u.AutoRevert
	}
	return w.kept[of]
}
