package tuning

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	noderules "attune.io/attune/recommender/node"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
)

// targets returns the target sizes of a pod's containers, without blocked resources. Under strategy Node they are the
// pod's own grants. A container without a target is missing from the result.
func (v *View) targets(pod *corev1.Pod) []podview.Container {
	if v.ByNode() {
		return v.granted(pod)
	}
	var out []podview.Container
	for _, t := range v.Rec.Spec.Containers {
		if size := resize.Unheld(t); size != (recommender.Size{}) {
			out = append(out, podview.Container{Name: t.Name, Size: size})
		}
	}
	return out
}

// nextSizes returns the next size of each container, starting from its current one. A large change takes several
// resize steps (recommender.NextStep, maxChangePercent).
func (d *starter) nextSizes(pod *corev1.Pod) []podview.Container {
	if d.view.ByNode() {
		return d.killsAnswered(pod, d.view.granted(pod))
	}
	originals := d.learned.originalsOf(pod)
	live, due := podview.ByName(podview.Read(pod)), resize.DueOf(pod, d.view.Usage.Lately[pod.UID])
	var out []podview.Container
	for _, t := range d.view.Rec.Spec.Containers {
		has, there := live[t.Name]
		target := resize.TargetFrom(t, has.Size, d.learned.floors, d.view.Now)
		if !there || target == (recommender.Size{}) && limitFloor(t) == 0 || d.view.Policy.Settings.Resize.Excludes(t.Name) {
			continue
		}
		// The floor learned from OOM kills may be newer than the stored target. No limit is lowered below it.
		floor := max(limitFloor(t), min(has.Size[recommender.Memory].Limit, resize.OOMFloorOf(d.learned.floors, t.Name, d.view.Now)))
		if podview.Overhead(pod)[recommender.Memory] > 0 { // the runtime is a VM, which may not start with less
			floor = max(floor, originals[t.Name][recommender.Memory].Limit)
		}
		change := recommender.NextStep(recommender.Move{
			Container: t.Name, Target: target, Live: has.Size, Original: originals[t.Name],
			Largest: podview.LargestNode(d.view.Rec.Spec.LargestNode), CPULimitFloor: podview.FromPointer(recommender.CPU, t.CPULimitFloor),
			Guaranteed: podview.Guaranteed(pod), MemoryLimitFloor: floor, OOMFloor: resize.OOMFloorOf(d.learned.floors, t.Name, d.view.Now),
			Due: due[t.Name], Settings: *d.view.Policy.Settings.For(t.Name),
		})
		kept := d.view.Autoscalers.Kept(t.Name, recommender.Memory)
		if scaledOnMemory(d.view.Autoscalers, t) && (kept == nil || !kept.Contains(change.Next[recommender.Memory].Request)) {
			change.Next = keepRequest(pod, t.Name, change.Next, has.Size)
		}
		if d.view.Policy.Settings.Spared.Spares(&pod.Spec) {
			change.Next = atLeast(change.Next, has.Size)
		}
		out = append(out, podview.Container{Name: t.Name, Sidecar: has.Sidecar, Size: change.Next, MemoryUsage: d.view.Usage.Memory[pod.UID][t.Name]})
	}
	return out
}

// atLeast returns a size that lowers no resource of a container. Unchanged resources stay zero.
func atLeast(next, live recommender.Size) recommender.Size {
	for _, r := range recommender.Resources {
		if next[r] == (recommender.Allocation{}) {
			continue
		}
		next[r].Request, next[r].Limit = max(next[r].Request, live[r].Request), max(next[r].Limit, live[r].Limit)
	}
	return next
}

// keepRequest returns the next size of a container whose memory an HPA scales on. The request stays, because a
// different one would change the number of replicas. In a Guaranteed pod the limit stays too, unless the container
// itself was OOM-killed.
func keepRequest(pod *corev1.Pod, container string, next, live recommender.Size) recommender.Size {
	killed := slices.ContainsFunc(podview.OOMKills(pod), func(k podview.OOM) bool { return k.Container == container })
	switch guaranteed := podview.Guaranteed(pod); {
	case guaranteed && !killed:
		next[recommender.Memory] = live[recommender.Memory]
	case !guaranteed:
		next[recommender.Memory].Request = live[recommender.Memory].Request
	}
	return next
}

// scaledOnMemory reports whether an HPA scales the workload on the container's memory, either now or according to the
// stored target.
func scaledOnMemory(now autoscale.Holds, t v1alpha1.ContainerTarget) bool {
	hold := now.On(t.Name, recommender.Memory)
	return hold != nil && hold.Reason == resize.ReasonHPA || now.Kept(t.Name, recommender.Memory) != nil || resize.ScaledOn(t, recommender.Memory)
}

// limitFloor returns the bytes below which the memory limit must not go; 0: no floor.
func limitFloor(t v1alpha1.ContainerTarget) recommender.Amount {
	return podview.FromPointer(recommender.Memory, t.MemoryLimitFloor)
}

// urgent reports whether a plan answers an OOM kill: the kernel killed a container of this pod, the pod still has
// less memory than the floor learned from the kill, and the plan raises it. Such a plan does not wait for a cooldown,
// a rollout or fresh data.
func (d *starter) urgent(pod *corev1.Pod, plan resize.Plan) bool {
	if !d.view.Policy.Settings.Resize.AutoRevert && pod.Generation > 1 {
		return false // the pod was resized: raising it now would be a revert
	}
	for _, kill := range podview.OOMKills(pod) {
		floor := resize.FloorsOf(d.learned.floors, kill.Container, d.view.Now)[recommender.Memory].Amount
		if kill.Limit < floor && slices.ContainsFunc(plan.Moves, func(m resize.Move) bool {
			return m.Container == kill.Container && raisesMemory(m)
		}) {
			return true
		}
	}
	return false
}

// raisesMemory compares the limits, or the requests if there is no limit.
func raisesMemory(m resize.Move) bool {
	from, to := m.From[recommender.Memory], m.To[recommender.Memory]
	return to.Limit > from.Limit || from.Limit == 0 && to.Request > from.Request
}

// granted returns the sizes that a pod's node grants its containers; empty: no grant. A resource whose change
// restarts the container is left out, because it is sized only at admission. Pods that a cluster policy never lowers
// are only raised.
func (v *View) granted(pod *corev1.Pod) []podview.Container {
	var out []podview.Container
	spared := v.Policy.Settings.Spared.Spares(&pod.Spec)
	for _, c := range podview.Read(pod) {
		size := v.Grants[pod.UID].Sizes[c.Name]
		if spared {
			size = atLeast(size, c.Size)
		}
		for r, restarts := range resize.RestartsOn(pod, c.Name) {
			if restarts {
				size[r] = recommender.Allocation{}
			}
		}
		if size == (recommender.Size{}) || v.Policy.Settings.Resize.Excludes(c.Name) {
			continue
		}
		out = append(out, podview.Container{Name: c.Name, Sidecar: c.Sidecar, Size: size, MemoryUsage: v.Usage.Memory[pod.UID][c.Name]})
	}
	return out
}

// killsAnswered raises the memory of OOM-killed containers to the learned floor, above the grant of the pod's node. A
// node grants nothing to a blocked pod, and no resize that restarts a container. Neither may keep a container from
// the memory that it needs to run. It changes wishes in place and may add to them.
func (d *starter) killsAnswered(pod *corev1.Pod, wishes []podview.Container) []podview.Container {
	if !d.view.Policy.Settings.Resize.AutoRevert && pod.Generation > 1 {
		return wishes // see urgent
	}
	for _, c := range podview.Read(pod) {
		answer := d.killAnswer(pod, c)
		if answer == (recommender.Allocation{}) || d.view.Policy.Settings.Resize.Excludes(c.Name) {
			continue
		}
		i := slices.IndexFunc(wishes, func(wish podview.Container) bool { return wish.Name == c.Name })
		if i < 0 {
			i = len(wishes)
			wishes = append(wishes, podview.Container{Name: c.Name, Sidecar: c.Sidecar, MemoryUsage: d.view.Usage.Memory[pod.UID][c.Name]})
		}
		memory := &wishes[i].Size[recommender.Memory]
		memory.Request, memory.Limit = max(memory.Request, answer.Request), max(memory.Limit, answer.Limit)
	}
	return wishes
}

// killAnswer returns the minimum memory of a container after OOM kills, in bytes; zero: it was not killed below the
// floor, or the policy leaves its limit alone. A limit is raised but never added. The request is raised with it only in
// a Guaranteed pod, and instead of it if there is no limit.
func (d *starter) killAnswer(pod *corev1.Pod, c podview.Container) recommender.Allocation {
	has, floor := c.Size[recommender.Memory], resize.OOMFloorOf(d.learned.floors, c.Name, d.view.Now)
	t := d.view.target(c.Name)
	below := slices.ContainsFunc(podview.OOMKills(pod), func(k podview.OOM) bool { return k.Container == c.Name && k.Limit < floor })
	if t.Demand == nil || !below || has.Limit > 0 && !d.view.Policy.Settings.For(c.Name).Of[recommender.Memory].LimitsFollow {
		return recommender.Allocation{}
	}
	answer := recommender.Allocation{Request: has.Request}
	if has.Limit == 0 && !scaledOnMemory(d.view.Autoscalers, t) || podview.Guaranteed(pod) {
		answer.Request = floor
		if most := podview.FromResources(t.Demand.Most)[recommender.Memory].Request; most > 0 {
			answer.Request = min(floor, most)
		}
		answer.Request = max(answer.Request, has.Request)
	}
	if has.Limit > 0 {
		limited := noderules.Container{Max7d: podview.FromPointer(recommender.Memory, t.Demand.MemoryMax7d), OOM: floor}
		if t.Demand.MemoryLimitMost != nil {
			limited.LimitMost = max(podview.AmountOf(recommender.Memory, *t.Demand.MemoryLimitMost), floor)
		}
		answer.Limit = max(has.Limit, limited.MemoryLimit(answer.Request))
	}
	return answer
}

// boosted returns the containers of a pod that still have their CPU startup boost. It searches the text of the
// annotation first, because decoding it for each pod in each reconcile would cost more.
func (v *View) boosted(pod *corev1.Pod) []podview.Container {
	if !strings.Contains(pod.Annotations[v1alpha1.SeededAnnotation], `"boosted"`) {
		return nil
	}
	seeded := v.seededBy(pod)
	if seeded == nil {
		return nil
	}
	return lifecycle.Boosted(pod, *seeded, func(container string) recommender.Amount {
		return v.Policy.Settings.For(container).Of[recommender.CPU].MinAllowed
	})
}

// besideBoosts removes boosted CPU from wishes, so that a resize towards the target does not end the boost early. It
// changes wishes in place.
func besideBoosts(wishes, boosted []podview.Container) []podview.Container {
	for i := range wishes {
		for _, b := range boosted {
			if b.Name == wishes[i].Name {
				wishes[i].Size[recommender.CPU] = recommender.Allocation{}
			}
		}
	}
	return wishes
}
