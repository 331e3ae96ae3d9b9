package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// inPlace: attune gets its first policy, and pods that run are given other sizes.
func (d *demo) inPlace(ctx context.Context) error {
	if err := d.applyShown(ctx, "policy-front.yaml"); err != nil {
		return err
	}
	for _, workload := range []string{"api", "web"} {
		if _, err := d.resized(ctx, workload, patience); err != nil {
			return err
		}
	}
	d.screen.say("One pod of web went first and is watched for a minute now; the other one waits.")
	return nil
}

// applyShown applies a manifest that a person would want to read.
func (d *demo) applyShown(ctx context.Context, manifest string) error {
	text, err := os.ReadFile(filepath.Join(d.project, manifests, manifest))
	if err != nil {
		return err
	}
	d.screen.block(string(text))
	return d.apply(ctx, manifest)
}

// resized waits until one more of the first pods of a workload has been resized in place.
func (d *demo) resized(ctx context.Context, workload string, limit time.Duration) (now look, err error) {
	var before look
	err = d.await(ctx, "a pod of "+workload+" is resized in place", limit, func(ctx context.Context) error {
		target, err := d.target(ctx, workload)
		if err == nil {
			before, now, err = d.oneResized(ctx, workload, target)
		}
		return err
	})
	if err != nil {
		return now, err
	}
	delete(d.first, now.uid) // the next call is about another one
	d.rows = append(d.rows, row{workload, now.pod.Name, "in place", before.asked, now.asked, "same UID, no restart"})
	d.screen.seen("%s was resized in place: %v -> %v", now.pod.Name, before.asked, now.asked)
	d.screen.detail("UID %s, container %.21s…, %d restarts, all as before", now.uid, now.containerID, now.restarts)
	d.screen.detail("its cgroup before: %v", before.kernel)
	d.screen.detail("its cgroup now:    %v", now.kernel)
	return now, nil
}

// target is where a workload is heading.
func (d *demo) target(ctx context.Context, workload string) (size, error) {
	rec, err := d.recommendation(ctx, workload)
	if err != nil {
		return size{}, err
	}
	if len(rec.Spec.Containers) == 0 {
		return size{}, fmt.Errorf("nothing is recommended for %s", workload)
	}
	return targetOf(rec.Spec.Containers[0].Target), nil
}

// oneResized finds one of the first pods of a workload at its target and not at the size it had.
func (d *demo) oneResized(ctx context.Context, workload string, target size) (before, now look, err error) {
	pods, err := d.pods(ctx, workload)
	if err != nil {
		return before, now, err
	}
	err = fmt.Errorf("none of its pods from before is left at its old size")
	for i := range pods {
		was, known := d.first[pods[i].UID]
		if !known {
			continue
		}
		if now, err = d.look(&pods[i]); err == nil {
			err = resizedInPlace(was, now)
		}
		if err == nil {
			err = now.asked.near(target)
		}
		if err == nil {
			return was, now, nil
		}
	}
	return before, now, err
}

// follow: the pods that waited get the size that the first one survived.
func (d *demo) follow(ctx context.Context) error {
	_, err := d.resized(ctx, "web", 2*patience)
	return err
}

// explain: the plugin says how a size came about.
func (d *demo) explain(ctx context.Context) error {
	d.screen.typed("kubectl attune explain deployment/web -n " + namespace)
	text, err := d.attune(ctx, "explain", "deployment/web", "-n", namespace)
	if err != nil {
		return err
	}
	d.screen.block(text)
	return nil
}
