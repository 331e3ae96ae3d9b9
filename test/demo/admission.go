package main

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// admission: a workload that attune only sizes at admission gets its first pods.
func (d *demo) admission(ctx context.Context) error {
	if err := d.apply(ctx, "mail.yaml"); err != nil {
		return err
	}
	err := d.await(ctx, "attune knows mail", patience, func(ctx context.Context) error {
		rec, err := d.recommendation(ctx, "mail")
		if err == nil && rec.Spec.Seed == nil {
			err = fmt.Errorf("its new pods would not be sized: %s", rec.Spec.SeedBlocked)
		}
		return err
	})
	if err != nil {
		return err
	}
	d.screen.seen("attune knows mail, which has no pods yet")
	return d.grow(ctx, "mail", 2)
}

// inherit: web gets one more pod after one of its pods has survived its new size.
func (d *demo) inherit(ctx context.Context) error {
	err := d.await(ctx, "the resized pod of web is watched for a minute", patience, func(ctx context.Context) error {
		rec, err := d.recommendation(ctx, "web")
		if err == nil && len(rec.Status.Verified) == 0 {
			err = errors.New("no size of web is kept yet")
		}
		if err == nil && (rec.Spec.Seed == nil || rec.Spec.Seed.RaiseOnly) {
			err = errors.New("the kept size is not what new pods get yet")
		}
		return err
	})
	if err != nil {
		return err
	}
	d.screen.seen("the resized pod of web was watched for a minute and is well: its size is kept")
	return d.grow(ctx, "web", 1)
}

// grow gives a workload more pods, and wants each to be created at another size than its template's.
func (d *demo) grow(ctx context.Context, workload string, more int) error {
	deployment := &appsv1.Deployment{}
	if err := d.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: workload}, deployment); err != nil {
		return err
	}
	pods, err := d.pods(ctx, workload)
	if err != nil {
		return err
	}
	old := map[types.UID]bool{}
	for _, p := range pods {
		old[p.UID] = true
	}
	if err := d.scale(ctx, workload, int(*deployment.Spec.Replicas)+more); err != nil {
		return err
	}
	template := sizeOf(deployment.Spec.Template.Spec.Containers[0].Resources)
	return d.await(ctx, "the new pods of "+workload+" run", patience, func(ctx context.Context) error {
		born, err := d.looks(ctx, workload, len(old)+more)
		if err != nil {
			return err
		}
		return d.checkCreated(template, workload, without(born, old))
	})
}

func (d *demo) scale(ctx context.Context, workload string, replicas int) error {
	n := fmt.Sprintf("--replicas=%d", replicas)
	d.screen.typed("kubectl scale deployment/" + workload + " -n " + namespace + " " + n)
	return d.kubectl(ctx, "scale", "deployment/"+workload, "-n", namespace, n)
}

func without(looks []look, old map[types.UID]bool) []look {
	var others []look
	for _, l := range looks {
		if !old[l.uid] {
			others = append(others, l)
		}
	}
	return others
}

// checkCreated tells of the pods that were born if all of them have their size.
func (d *demo) checkCreated(template size, workload string, born []look) error {
	for _, l := range born {
		if err := createdSized(template, l); err != nil {
			return err
		}
	}
	for _, l := range born {
		d.rows = append(d.rows, row{workload, l.pod.Name, "at birth", template, l.asked, "created so"})
		d.screen.seen("%s was born with %v; its template asks for %v", l.pod.Name, l.asked, template)
	}
	return nil
}

// createdSized says why a pod was not created at a size other than its template's, if it was not: its spec
// was made at admission, has not changed since, and the kernel has it.
func createdSized(template size, l look) error {
	switch {
	case l.asked == template:
		return fmt.Errorf("%s was born with its template's size %v", l.pod.Name, template)
	case !l.seeded:
		return fmt.Errorf("%s carries no note of having been sized at admission", l.pod.Name)
	case l.pod.Generation > 1:
		return fmt.Errorf("%s was changed after it was created", l.pod.Name)
	}
	return l.settled()
}
