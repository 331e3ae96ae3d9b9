package targets

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// LargestOf returns the maximum size of a workload's pods: the allocatable resources of the largest node on which they
// may run now, without its DaemonSet pods (known; 0: no such node), or of a larger one that was seen within the history
// window and is deleted (stored; nil: none), unless it was for another placement. For a DaemonSet the current nodes
// take precedence, because its bound is its smallest node. The zero value: not known.
func LargestOf(known [2]recommender.Amount, stored *v1alpha1.LargestNode, placement string, kind v1alpha1.WorkloadKind, window time.Duration, now time.Time) [2]recommender.Amount {
	if stored == nil || stored.Placement != placement || now.Sub(stored.SeenAt.Time) > window {
		return known
	}
	before := podview.LargestNode(stored)
	for _, r := range recommender.Resources {
		if known[r] == 0 || kind != v1alpha1.KindDaemonSet {
			known[r] = max(known[r], before[r])
		}
	}
	return known
}

// largestNode returns the bound to store. Its time is now, unless the bound comes from a deleted node: then the
// stored time stays.
func (v View) largestNode() *v1alpha1.LargestNode {
	if v.Largest == ([2]recommender.Amount{}) {
		return nil
	}
	seen := metav1.Time{Time: v.Now.UTC().Truncate(time.Second)}
	if v.Gone && v.Stored.LargestNode != nil {
		seen = v.Stored.LargestNode.SeenAt
	}
	return &v1alpha1.LargestNode{
		CPU:    podview.ToPointer(recommender.CPU, v.Largest[recommender.CPU]),
		Memory: podview.ToPointer(recommender.Memory, v.Largest[recommender.Memory]),
		SeenAt: seen, Placement: v.Placement,
	}
}

// largestPod returns the bound of created pods for the webhook, which does not read nodes. If limits follow requests,
// the bound of limits is at most the highest maxAllowed of the containers; limitMost has a lower one. A container whose
// cpu.limits has a bound of its own counts as one without maxAllowed.
func (v View) largestPod() v1alpha1.Resources {
	var size recommender.Size
	containers := Sized(v.Workload.Template, v.Settings)
	for _, r := range recommender.Resources {
		size[r] = recommender.Allocation{Request: v.Largest[r], Limit: v.Largest[r]}
		if most := highestLimit(&v, containers, r); most > 0 {
			size[r].Limit = min(cmp.Or(v.Largest[r], most), most)
		}
		for _, c := range containers {
			if size[r].Limit > 0 {
				size[r].Limit = max(size[r].Limit, v.killed(c.Name, r))
			}
		}
	}
	return podview.ToResources(size)
}

// maxLimit returns the maxAllowed to which the limit of a container is raised at most; 0: no bound.
func maxLimit(v *View, container string, r recommender.Resource) recommender.Amount {
	if of := &v.Settings.For(container).Of[r]; of.LimitsFollow && !of.Limits.Sets() && v.Settings.Strategy != v1alpha1.StrategyNode {
		return of.MaxAllowed
	}
	return 0
}

// highestLimit returns the highest maxLimit of the sized containers; 0: one of them has no bound.
func highestLimit(v *View, containers []*corev1.Container, r recommender.Resource) (highest recommender.Amount) {
	for _, c := range containers {
		most := maxLimit(v, c.Name, r)
		if most == 0 {
			return 0
		}
		highest = max(highest, most)
	}
	return highest
}

// limitMost returns the bound of a container's limit that is lower than that of the pod (largestPod); nil: there is none.
func limitMost(v *View, container string, r recommender.Resource) *resource.Quantity {
	if len(v.Settings.Containers) == 0 { // all containers have the same bound
		return nil
	}
	most := maxLimit(v, container, r)
	if most == 0 || most == highestLimit(v, Sized(v.Workload.Template, v.Settings), r) {
		return nil
	}
	return podview.ToPointer(r, max(most, v.killed(container, r)))
}

// withinNodes blocks a resource of raised containers if the pod would request more than the largest node has and more
// than its template requests, or if the limit needs to be above the node (NodeCapacity). It also caps memory limits and
// their floors at the largest node, at the template's limit, or at the floor learned from OOM kills, whichever is
// greatest. A limit may exceed the node: it takes no room there, and the bound of a DaemonSet is its smallest node.
func (v View) withinNodes(targets []v1alpha1.ContainerTarget) []v1alpha1.ContainerTarget {
	if v.Largest == ([2]recommender.Amount{}) || v.Workload.Template == nil {
		return targets
	}
	template := &corev1.Pod{Spec: v.Workload.Template.Spec}
	before, after := podview.Requests(template), podview.Requests(sized(template, targets))
	sizedContainers := Sized(v.Workload.Template, v.Settings)
	for i := range targets {
		t := &targets[i]
		original := v.original(sizedContainers[i])
		size := podview.FromResources(t.Target)
		for _, r := range recommender.Resources {
			if v.Largest[r] == 0 {
				continue
			}
			most := max(v.Largest[r], v.killed(t.Name, r))
			raised := size[r].Request > original[r].Request && !barred(t.Holds, r)
			size[r] = r.CapLimit(original[r], size[r], most)
			why := ""
			switch {
			case !raised:
			case after[r] > max(v.Largest[r], before[r]):
				why = fmt.Sprintf("a pod would request %s of %s", recommender.Format(r, after[r]), r)
			case size[r].Limit > max(most, original[r].Limit): // a limit above its request stays above it
				why = fmt.Sprintf("container %s would have a limit of %s of %s", t.Name, recommender.Format(r, size[r].Limit), r)
			}
			if why != "" {
				t.Holds = append(slices.Clip(t.Holds), v1alpha1.Hold{Resource: r.String(), Reason: resize.ReasonNodeCapacity, Message: why + v.largestHas(r)})
			}
		}
		t.Target = podview.ToResources(size)
		if most := v.Largest[recommender.Memory]; most > 0 {
			floor := min(podview.FromPointer(recommender.Memory, t.MemoryLimitFloor), max(most, original[recommender.Memory].Limit, v.killed(t.Name, recommender.Memory)))
			t.MemoryLimitFloor = podview.ToPointer(recommender.Memory, floor)
		}
	}
	return targets
}

// killed returns the memory limit learned from OOM kills of a container, in bytes; 0: no kill, or CPU.
func (v View) killed(container string, r recommender.Resource) recommender.Amount {
	if r != recommender.Memory {
		return 0
	}
	return resize.OOMFloorOf(v.Status.Floors, container, v.Now)
}

// sized returns a pod with the requests of targets that may be applied. Other containers keep their requests.
func sized(template *corev1.Pod, targets []v1alpha1.ContainerTarget) *corev1.Pod {
	pod := &corev1.Pod{Spec: template.Spec}
	pod.Spec.Containers, pod.Spec.InitContainers = slices.Clone(pod.Spec.Containers), slices.Clone(pod.Spec.InitContainers)
	for _, c := range podview.ResizableIn(&pod.Spec) {
		i := slices.IndexFunc(targets, func(t v1alpha1.ContainerTarget) bool { return t.Name == c.Name })
		if i < 0 {
			continue
		}
		size, target := podview.ReadSpec(c.Resources), podview.FromResources(targets[i].Target)
		for _, r := range recommender.Resources {
			if target[r].Request > 0 && !barred(targets[i].Holds, r) {
				size[r] = recommender.Allocation{Request: target[r].Request, Limit: max(size[r].Limit, target[r].Request)}
			}
		}
		c.Resources = podview.ToRequirements(size)
	}
	return pod
}

// largestHas ends the message of NodeCapacity: what the node has, and the action.
func (v View) largestHas(r recommender.Resource) string {
	most := recommender.Format(r, v.Largest[r])
	if v.Workload.Kind == v1alpha1.KindDaemonSet {
		return fmt.Sprintf(", but the smallest node on which the DaemonSet runs has %s next to its other DaemonSet pods. "+
			"Use larger nodes, a node selector that excludes small nodes, or a lower maxAllowed", most)
	}
	return fmt.Sprintf(", but the largest node on which it may run has %s next to its DaemonSet pods. "+
		"Add a larger node, set the chart's value nodes.largest (for node pools that scale from zero), or set a lower maxAllowed", most)
}
