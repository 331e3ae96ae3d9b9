package plane

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// cronJobs takes each one step (pkg/controller/cronjob). All times are UTC.
func (p *Plane) cronJobs(ctx context.Context, v *view) error {
	for _, c := range v.cronJobs {
		if c.DeletionTimestamp != nil {
			continue
		}
		if failure := p.cronJob(ctx, v, c); failure != nil && !refused(failure) {
			return failure
		}
	}
	return nil
}

func (p *Plane) cronJob(ctx context.Context, v *view, c *batchv1.CronJob) error {
	jobs := v.jobsOf(c)
	if err := p.forgetJobs(ctx, v, c, jobs); err != nil {
		return err
	}
	status := c.Status.DeepCopy()
	running := slices.DeleteFunc(v.jobsOf(c), func(job *batchv1.Job) bool { over, _ := jobEnd(job); return over })
	for _, job := range jobs {
		if over, succeeded := jobEnd(job); over && succeeded && (status.LastSuccessfulTime == nil || status.LastSuccessfulTime.Time.Before(endedAt(job))) {
			status.LastSuccessfulTime = ptr.To(stored(endedAt(job)))
		}
	}
	running, err := p.fire(ctx, v, c, status, running)
	if err != nil {
		return err
	}
	status.Active = nil
	for _, job := range running {
		status.Active = append(status.Active, corev1.ObjectReference{
			APIVersion: "batch/v1", Kind: "Job", Namespace: job.Namespace, Name: job.Name, UID: job.UID,
		})
	}
	return p.storeCronJob(ctx, v, c, status)
}

// jobsOf a CronJob, oldest first.
func (v *view) jobsOf(c *batchv1.CronJob) (jobs []*batchv1.Job) {
	for _, job := range v.jobs {
		if metav1.IsControlledBy(job, c) && job.DeletionTimestamp == nil {
			jobs = append(jobs, job)
		}
	}
	return jobs
}

// fire makes the Job of the last time that has passed, as the concurrency policy allows.
func (p *Plane) fire(ctx context.Context, v *view, c *batchv1.CronJob, status *batchv1.CronJobStatus, running []*batchv1.Job) ([]*batchv1.Job, error) {
	at, err := p.due(v, c)
	if err != nil || at.IsZero() || ptr.Deref(c.Spec.Suspend, false) {
		return running, err
	}
	if late := c.Spec.StartingDeadlineSeconds; late != nil && v.now.Sub(at) > time.Duration(*late)*time.Second {
		return running, nil
	}
	if len(running) > 0 && c.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent {
		return running, nil
	}
	if c.Spec.ConcurrencyPolicy == batchv1.ReplaceConcurrent {
		for _, job := range running {
			if err := p.deleteJob(ctx, v, job); err != nil {
				return running, err
			}
		}
		running = nil
	}
	job := jobOf(c, at)
	if err := p.Client.Create(ctx, job); err != nil && !apierrors.IsAlreadyExists(err) {
		return running, err
	} else if err == nil {
		v.jobs = append(v.jobs, job)
		running = append(running, job)
	}
	status.LastScheduleTime = ptr.To(stored(at))
	return running, nil
}

// due is the last time that has passed and has no Job yet; the plane looks again at the next one.
func (p *Plane) due(v *view, c *batchv1.CronJob) (time.Time, error) {
	s, err := parseSchedule(c.Spec.Schedule)
	if err != nil {
		return time.Time{}, err
	}
	since := c.CreationTimestamp.Time
	if c.Status.LastScheduleTime != nil {
		since = c.Status.LastScheduleTime.Time
	}
	now := v.now.UTC()
	p.wake(v, s.next(now))
	// Of the times that were missed only the last one counts, so that no more than a month is looked at.
	if earliest := now.Add(-32 * 24 * time.Hour); since.Before(earliest) {
		since = earliest
	}
	var last time.Time
	for at := s.next(since.UTC()); !at.IsZero() && !at.After(now); at = s.next(at) {
		last = at
	}
	return last, nil
}

// jobOf is the Job of a scheduled time; its name ends in the minutes since 1970 (getJobFromTemplate2).
func jobOf(c *batchv1.CronJob, at time.Time) *batchv1.Job {
	job := &batchv1.Job{}
	job.Namespace, job.Name = c.Namespace, fmt.Sprintf("%s-%d", c.Name, at.Unix()/60)
	job.Labels, job.Annotations = maps.Clone(c.Spec.JobTemplate.Labels), maps.Clone(c.Spec.JobTemplate.Annotations)
	if job.Annotations == nil {
		job.Annotations = map[string]string{}
	}
	job.Annotations[batchv1.CronJobScheduledTimestampAnnotation] = at.Format(time.RFC3339)
	job.OwnerReferences = []metav1.OwnerReference{owner{c, "batch/v1", "CronJob"}.reference()}
	job.Spec = *c.Spec.JobTemplate.Spec.DeepCopy()
	return job
}

// forgetJobs deletes the oldest Jobs beyond the limits of the history (cleanupFinishedJobs).
func (p *Plane) forgetJobs(ctx context.Context, v *view, c *batchv1.CronJob, jobs []*batchv1.Job) error {
	slices.SortStableFunc(jobs, func(a, b *batchv1.Job) int {
		return cmp.Or(startOf(a).Compare(startOf(b)), strings.Compare(a.Name, b.Name))
	})
	for _, kind := range []struct {
		succeeded bool
		keep      int32
	}{{true, ptr.Deref(c.Spec.SuccessfulJobsHistoryLimit, 3)}, {false, ptr.Deref(c.Spec.FailedJobsHistoryLimit, 1)}} {
		ended := slices.DeleteFunc(slices.Clone(jobs), func(job *batchv1.Job) bool {
			over, succeeded := jobEnd(job)
			return !over || succeeded != kind.succeeded
		})
		for _, job := range ended[:max(0, len(ended)-int(kind.keep))] {
			if err := p.deleteJob(ctx, v, job); err != nil {
				return err
			}
		}
	}
	return nil
}

func startOf(job *batchv1.Job) time.Time {
	if job.Status.StartTime == nil {
		return time.Time{}
	}
	return job.Status.StartTime.Time
}

// deleteJob with its pods, which the garbage collector takes.
func (p *Plane) deleteJob(ctx context.Context, v *view, job *batchv1.Job) error {
	err := p.Client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground))
	v.jobs = slices.DeleteFunc(v.jobs, func(other *batchv1.Job) bool { return other.UID == job.UID })
	return client.IgnoreNotFound(err)
}

func (p *Plane) storeCronJob(ctx context.Context, v *view, c *batchv1.CronJob, status *batchv1.CronJobStatus) error {
	if equality.Semantic.DeepEqual(&c.Status, status) {
		return nil
	}
	changed := c.DeepCopy()
	changed.Status = *status
	swap(v.cronJobs, changed)
	return p.writeStatus(ctx, changed)
}
