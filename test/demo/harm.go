package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
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
	killed          time.Time
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
	if err := d.overflow(ctx); err != nil {
		return err
	}
	if err := d.reverted(ctx); err != nil {
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
func (d *demo) overflow(ctx context.Context) error {
	d.screen.typed(fmt.Sprintf("curl 'http://%s:8080/set?memory=%d'", d.victim.resized.pod.Status.PodIP, need))
	if d.allocate(ctx, d.victim.resized.pod) == nil {
		return fmt.Errorf("%d MiB fit into the new limit: nothing was killed", need)
	}
	d.victim.killed = time.Now()
	d.screen.seen("%s took %d MiB, and the answer broke off", d.victim.resized.pod.Name, need)
	return ctx.Err()
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
func (d *demo) reverted(ctx context.Context) error {
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
	took := time.Since(d.victim.killed)
	d.screen.seen("attune took the resize back %.1f s after the kill: the pod asks for %v again", took.Seconds(), before.asked)
	var now look
	err = d.await(ctx, "its container runs at the old size", patience, func(ctx context.Context) error {
		if now, err = d.only(ctx, "leaky"); err != nil {
			return err
		}
		if err := checkReverted(before, now); err != nil {
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

// checkReverted says why now is not the pod of before, at its old size after an OOM kill, if it is not.
func checkReverted(before, now look) error {
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
