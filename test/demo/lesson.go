package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"attune.io/attune/api/v1alpha1"
)

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
	d.screen.seen("%s was resized again, in place, %.0f s after the kill: %v", now.pod.Name,
		d.victim.sizes.since(d.victim.killed).Seconds(), now.asked)
	d.screen.seen("since the kill its limit was never again at or under the %s that killed: %s",
		mib(d.victim.resized.asked.memoryLimit), d.victim.sizes)
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
