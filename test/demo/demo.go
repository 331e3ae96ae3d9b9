package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/test/cluster"
)

// demo is one performance.
type demo struct {
	screen  *screen
	project string // its root
	cluster *cluster.Cluster
	client  client.WithWatch
	plugin  string // kubectl-attune

	// first are the pods as they were before any policy.
	first map[types.UID]look
	// victim is the one that is resized badly.
	victim victim
	rows   []row
}

// scene is one part of it: something that has to be seen.
type scene struct {
	title string
	// claim is what was seen where play returns no error.
	claim string
	play  func(context.Context) error
}

// show gives the performance and leaves nothing behind, except to somebody who wants to look around.
func show(ctx context.Context, s *screen) (err error) {
	began := time.Now()
	d := &demo{screen: s, first: map[types.UID]look{}}
	if err := d.raise(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.leave(ctx)) }()
	if err := d.prepare(ctx); err != nil {
		return err
	}
	missed := d.perform(ctx, d.scenes())
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if missed != nil {
		d.evidence(ctx)
	}
	d.conclude(ctx, time.Since(began))
	return missed
}

func (d *demo) scenes() []scene {
	return []scene{
		{"Running pods are resized in place", "running pods were resized in place, with the same UID and no restart", d.inPlace},
		{"Why that size?", "the size was explained", d.explain},
		{"A new workload is sized at birth", "the pods of a new workload were created at their size", d.admission},
		{"A size that harms is taken back", "the bad resize was OOM-killed and reverted", d.harm},
		{"A size that a pod survived is what new pods get", "the new pod of a resized workload was created at its size", d.inherit},
		{"The other pods follow", "the rest of the running pods was resized in place", d.follow},
		{"What killed is not tried again", "the next size was above the one that killed", d.again},
	}
}

// perform plays all scenes, and says in its error which of them were not seen.
func (d *demo) perform(ctx context.Context, scenes []scene) error {
	var missed []string
	for _, s := range scenes {
		d.screen.scene(s.title)
		err := s.play(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			d.screen.missed(err)
			missed = append(missed, fmt.Sprintf("- that %s: %v", s.claim, err))
		}
	}
	if len(missed) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d things were not seen:\n%s", len(missed), len(scenes), strings.Join(missed, "\n"))
}

// evidence shows what attune knows, for whoever looks for the reason of a failure.
func (d *demo) evidence(ctx context.Context) {
	d.screen.say("\nWhat attune knows:")
	for _, args := range []string{
		"get attunepolicies,attunerecommendations -n " + namespace + " -o yaml",
		"get events -n " + namespace, "logs -n attune-system -l app.kubernetes.io/name=attune --tail=20",
	} {
		d.screen.typed("kubectl " + args)
		output, _ := d.cluster.Command(ctx, "kubectl", strings.Fields(args)...).CombinedOutput()
		d.screen.block(string(output))
	}
}

// conclude shows the table of before and after.
func (d *demo) conclude(ctx context.Context, took time.Duration) {
	d.screen.scene("Before and after")
	d.screen.block(table(d.rows))
	if text, err := d.attune(ctx, "status", "-n", namespace); err == nil {
		d.screen.say("")
		d.screen.typed("kubectl attune status -n " + namespace)
		d.screen.block(text)
	}
	d.screen.say("\nThat took %v, the cluster included.", took.Round(time.Second))
}
