package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
)

// need is what leaky comes to need, in MiB: more than the limit that a week of 60 MiB gets it, less
// than the one that it was created with.
const need = 300

// victim is the pod that is resized badly, and what was seen of it.
type victim struct {
	before, resized look
	sizes           *sizes
	// floor is what attune learned, in bytes.
	floor int64
}

// harm: a workload needs more memory than it ever did, right after its limit was lowered.
func (d *demo) harm(ctx context.Context) error {
	var err error
	if d.victim.sizes, err = d.record(ctx, "leaky"); err != nil {
		return err
	}
	if d.victim.before, err = d.only(ctx, "leaky"); err != nil {
		return err
	}
	if err := d.apply(ctx, "policy-leaky.yaml"); err != nil {
		return err
	}
	if d.victim.resized, err = d.resized(ctx, "leaky", patience); err != nil {
		return err
	}
	killed, err := d.overflow(ctx)
	if err != nil {
		return err
	}
	if err := d.reverted(ctx, killed); err != nil {
		return err
	}
	if err := d.survives(ctx); err != nil {
		return err
	}
	return d.learned(ctx)
}

func (d *demo) only(ctx context.Context, workload string) (look, error) {
	all, err := d.looks(ctx, workload, 1)
	if err != nil {
		return look{}, err
	}
	return all[0], nil
}

// overflow makes the pod need more than its limit, and returns when the kernel killed it: the moment in
// which the answer broke off.
func (d *demo) overflow(ctx context.Context) (time.Time, error) {
	d.screen.typed(fmt.Sprintf("curl 'http://%s:8080/set?memory=%d'", d.victim.resized.pod.Status.PodIP, need))
	if d.allocate(ctx, d.victim.resized.pod) == nil {
		return time.Time{}, fmt.Errorf("%d MiB fit into the new limit: nothing was killed", need)
	}
	killed := time.Now()
	d.screen.seen("%s took %d MiB, and the answer broke off", d.victim.resized.pod.Name, need)
	return killed, ctx.Err()
}

// allocate makes a pod hold the memory.
func (d *demo) allocate(ctx context.Context, pod *corev1.Pod) error {
	url := fmt.Sprintf("http://%s:8080/set?memory=%d", pod.Status.PodIP, need)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	c := d.cluster.HTTPClient()
	defer c.CloseIdleConnections()
	response, err := c.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

// reverted waits until the pod's spec has its old size back, and then for all that belongs to it.
func (d *demo) reverted(ctx context.Context, killed time.Time) error {
	before := d.victim.before
	err := d.await(ctx, "the resize is taken back", patience, func(ctx context.Context) error {
		pod := &corev1.Pod{}
		if err := d.client.Get(ctx, client.ObjectKeyFromObject(before.pod), pod); err != nil {
			return err
		}
		if got := sizeOf(pod.Spec.Containers[0].Resources); got != before.asked {
			return fmt.Errorf("the pod asks for %v", got)
		}
		return nil
	})
	if err != nil {
		return err
	}
	took := time.Since(killed)
	d.screen.seen("attune took the resize back %.1f s after the kill: the pod asks for %v again", took.Seconds(), before.asked)
	var now look
	err = d.await(ctx, "its container runs at the old size", patience, func(ctx context.Context) error {
		if now, err = d.only(ctx, "leaky"); err != nil {
			return err
		}
		if err := putBack(before, now); err != nil {
			return err
		}
		return d.victim.sizes.mark(before.asked.memoryLimit)
	})
	if err != nil {
		return err
	}
	d.screen.seen("the kubelet says OOMKilled, and the container runs again in the same pod: %v", now.kernel)
	d.rows = append(d.rows, row{"leaky", now.pod.Name, "taken back", d.victim.resized.asked, now.asked,
		fmt.Sprintf("OOM-killed, reverted in %.1fs", took.Seconds())})
	return nil
}

// putBack says why now is not the pod of before, at its old size after an OOM kill, if it is not.
func putBack(before, now look) error {
	killed := now.pod.Status.ContainerStatuses[0].LastTerminationState.Terminated
	switch {
	case now.uid != before.uid:
		return errors.New("another pod has taken its place")
	case now.asked != before.asked:
		return fmt.Errorf("it asks for %v", now.asked)
	case killed == nil:
		return errors.New("its container has not been killed yet")
	case killed.Reason != "OOMKilled":
		return fmt.Errorf("its container ended with %s, not OOMKilled", killed.Reason)
	}
	return now.settled()
}

// survives: at the size that the pod was given back, the same need harms nobody.
func (d *demo) survives(ctx context.Context) error {
	err := d.await(ctx, "the pod takes its memory again", patience, func(ctx context.Context) error {
		return d.allocate(ctx, d.victim.resized.pod)
	})
	if err != nil {
		return err
	}
	now, err := d.only(ctx, "leaky")
	if err != nil {
		return err
	}
	if now.restarts != d.victim.before.restarts+1 {
		return fmt.Errorf("%s was restarted %d times and not once", now.pod.Name, now.restarts-d.victim.before.restarts)
	}
	d.screen.seen("%d MiB are no harm at the old size: one restart, and no more", need)
	return nil
}

// learned waits until the operator's own object says what has happened and that its target is above it.
func (d *demo) learned(ctx context.Context) error {
	var floor v1alpha1.Floor
	var target string
	err := d.await(ctx, "attune has learned from it", patience, func(ctx context.Context) error {
		rec, err := d.recommendation(ctx, "leaky")
		if err != nil {
			return err
		}
		floor, target, err = lesson(rec, d.victim.resized.asked)
		return err
	})
	if err != nil {
		return err
	}
	d.victim.floor = floor.Amount.Value()
	d.screen.seen("its history says Reverted; the floor learned is %s (%s), 1.3 times the limit of %s that killed",
		mib(d.victim.floor), floor.Reason, mib(d.victim.resized.asked.memoryLimit))
	d.screen.seen("its target is %s now, and was %s", target, mib(d.victim.resized.asked.memory))
	return nil
}

// lesson is the floor that a workload's object holds after a bad resize, and the target that respects it.
func lesson(rec *v1alpha1.AttuneRecommendation, killer size) (floor v1alpha1.Floor, target string, err error) {
	wasReverted := func(h v1alpha1.HistoryEntry) bool { return h.Result == "Reverted" }
	if !slices.ContainsFunc(rec.Status.History, wasReverted) {
		return floor, "", errors.New("its history has no resize that was Reverted")
	}
	i := slices.IndexFunc(rec.Status.Floors, func(f v1alpha1.Floor) bool { return f.Resource == "memory" })
	if i < 0 {
		return floor, "", errors.New("it has no floor for memory")
	}
	floor = rec.Status.Floors[i]
	if floor.Amount.Value() <= killer.memoryLimit {
		return floor, "", fmt.Errorf("its floor %s is not above the limit %s that killed", mib(floor.Amount.Value()), mib(killer.memoryLimit))
	}
	if len(rec.Spec.Containers) == 0 || rec.Spec.Containers[0].Target.MemoryRequest == nil {
		return floor, "", errors.New("it has no target for memory")
	}
	memory := rec.Spec.Containers[0].Target.MemoryRequest.Value()
	if memory < floor.Amount.Value()/100*99 { // floors fade, by a fifth in a week
		return floor, "", fmt.Errorf("its target %s is below its floor %s", mib(memory), mib(floor.Amount.Value()))
	}
	return floor, mib(memory), nil
}

// again: after the back-off attune tries another size, and never the one that killed.
func (d *demo) again(ctx context.Context) error {
	before := d.victim.before
	if d.victim.floor == 0 {
		return errors.New("there was no bad resize to learn from")
	}
	var now look
	err := d.await(ctx, "the back-off of two minutes is over, and leaky is resized again", 2*patience, func(ctx context.Context) (err error) {
		if now, err = d.only(ctx, "leaky"); err != nil {
			return err
		}
		if now.asked == before.asked {
			return errors.New("it has its old size")
		}
		return now.settled()
	})
	if err != nil {
		return err
	}
	if err := d.victim.sizes.above(d.victim.resized.asked.memoryLimit); err != nil {
		return err
	}
	if now.uid != before.uid || now.restarts != before.restarts+1 {
		return fmt.Errorf("it is another pod, or was restarted again (%d restarts)", now.restarts)
	}
	d.rows = append(d.rows, row{"leaky", now.pod.Name, "in place", before.asked, now.asked, "above what killed"})
	d.screen.seen("%s was resized again, in place: %v", now.pod.Name, now.asked)
	d.screen.seen("since the kill its limit was never again at or under the %s that killed: %s",
		mib(d.victim.resized.asked.memoryLimit), d.victim.sizes)
	return nil
}
