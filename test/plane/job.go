package plane

import (
	"context"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Back-off of a Job whose pods fail (pkg/controller/job).
const (
	podFailureBackOff    = 10 * time.Second
	maxPodFailureBackOff = 10 * time.Minute
)

// jobs takes each one step (pkg/controller/job). Indexed Jobs are played as others are.
func (p *Plane) jobs(ctx context.Context, v *view) error {
	for _, job := range v.jobs {
		if job.DeletionTimestamp != nil {
			continue
		}
		failure := p.job(ctx, v, job)
		if failure != nil && !refused(failure) {
			return failure
		}
	}
	return p.releaseOrphans(ctx, v)
}

// releaseOrphans lets pods go whose Job is gone (syncOrphanPod).
func (p *Plane) releaseOrphans(ctx context.Context, v *view) error {
	there := map[types.UID]bool{}
	for _, job := range v.jobs {
		there[job.UID] = true
	}
	var orphans []*corev1.Pod
	for _, pod := range v.pods {
		owner := metav1.GetControllerOfNoCopy(pod)
		if slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer) && (owner == nil || !there[owner.UID]) {
			orphans = append(orphans, pod)
		}
	}
	return p.release(ctx, v, orphans)
}

func (p *Plane) job(ctx context.Context, v *view, job *batchv1.Job) error {
	if over, _ := jobEnd(job); over {
		return p.expire(ctx, v, job)
	}
	status := job.Status.DeepCopy()
	ended := count(v.podsOf(job), status)
	if status.StartTime == nil && !ptr.Deref(job.Spec.Suspend, false) {
		status.StartTime = ptr.To(stored(v.now))
	}
	live := v.activeOf(job)
	reason, message := p.failed(v, job, status, live)
	done := reason == "" && status.Succeeded >= wanted(job, status) && (job.Spec.Completions != nil || len(live) == 0 && status.Succeeded > 0)
	var failure error
	switch {
	case reason != "" || done || ptr.Deref(job.Spec.Suspend, false):
		failure = p.removeAll(ctx, v, live)
	default:
		failure = p.fill(ctx, v, job, status, live)
	}
	live = v.activeOf(job)
	switch {
	case done:
		finish(v, status, batchv1.JobSuccessCriteriaMet, batchv1.JobComplete, "CompletionsReached", "Reached expected number of succeeded pods")
		status.CompletionTime = ptr.To(stored(v.now))
	case reason != "" && len(live) == 0:
		finish(v, status, batchv1.JobFailureTarget, batchv1.JobFailed, reason, message)
	}
	p.suspend(v, job, status)
	status.Active, status.Ready = int32(len(live)), ptr.To(int32(0))
	for _, pod := range live {
		if ready(pod) {
			*status.Ready++
		}
	}
	if err := p.storeJob(ctx, v, job, status); err != nil {
		return err
	}
	if err := p.release(ctx, v, ended); err != nil {
		return err
	}
	return failure
}

// count the pods that have ended since the last step, once each: those that still have the finalizer.
func count(pods []*corev1.Pod, status *batchv1.JobStatus) (ended []*corev1.Pod) {
	for _, pod := range pods {
		if !slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer) || active(pod) {
			continue
		}
		ended = append(ended, pod)
		if pod.Status.Phase == corev1.PodSucceeded {
			status.Succeeded++
		} else {
			status.Failed++
		}
	}
	return ended
}

// release lets pods go that were counted.
func (p *Plane) release(ctx context.Context, v *view, pods []*corev1.Pod) error {
	for _, pod := range pods {
		changed := pod.DeepCopy()
		changed.Finalizers = slices.DeleteFunc(changed.Finalizers, func(f string) bool { return f == batchv1.JobTrackingFinalizer })
		if err := ignoreStale(p.Client.Update(ctx, changed)); err != nil {
			return err
		}
		v.replace(changed)
	}
	return nil
}

// wanted is how many pods have to succeed.
func wanted(job *batchv1.Job, status *batchv1.JobStatus) int32 {
	if job.Spec.Completions != nil {
		return *job.Spec.Completions
	}
	return min(1, status.Succeeded)
}

// failed is why the Job has failed, or "".
func (p *Plane) failed(v *view, job *batchv1.Job, status *batchv1.JobStatus, live []*corev1.Pod) (reason, message string) {
	limit := ptr.Deref(job.Spec.BackoffLimit, 6)
	restarts := int32(0)
	if job.Spec.Template.Spec.RestartPolicy == corev1.RestartPolicyOnFailure {
		for _, pod := range live {
			restarts += restartsOf(pod)
		}
	}
	if status.Failed > limit || restarts > 0 && restarts >= limit {
		return batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit"
	}
	if seconds := job.Spec.ActiveDeadlineSeconds; seconds != nil && status.StartTime != nil {
		at := status.StartTime.Add(time.Duration(*seconds) * time.Second)
		if !v.now.Before(at) {
			return batchv1.JobReasonDeadlineExceeded, "Job was active longer than specified deadline"
		}
		p.wake(v, at)
	}
	return "", ""
}

func (p *Plane) removeAll(ctx context.Context, v *view, pods []*corev1.Pod) error {
	for _, pod := range pods {
		if err := p.remove(ctx, v, pod); err != nil {
			return err
		}
	}
	return nil
}

// fill makes as many pods as may run at once, later after each failure.
func (p *Plane) fill(ctx context.Context, v *view, job *batchv1.Job, status *batchv1.JobStatus, live []*corev1.Pod) error {
	most := int(ptr.Deref(job.Spec.Parallelism, 1))
	if job.Spec.Completions != nil {
		most = min(most, int(*job.Spec.Completions-status.Succeeded))
	} else if status.Succeeded > 0 {
		most = len(live)
	}
	if len(live) >= most {
		return p.removeAll(ctx, v, live[most:])
	}
	if at := backoff(v.podsOf(job), status.Failed); v.now.Before(at) {
		p.wake(v, at)
		return nil
	}
	template := *job.Spec.Template.DeepCopy()
	for key, value := range map[string]string{
		batchv1.JobNameLabel: job.Name, "job-name": job.Name, batchv1.ControllerUidLabel: string(job.UID), "controller-uid": string(job.UID),
	} {
		template.Labels = withLabel(template.Labels, key, value)
	}
	template.Finalizers = append(template.Finalizers, batchv1.JobTrackingFinalizer)
	for range most - len(live) {
		name := p.podName(job)
		if err := v.refusals[p.likeOf(job)]; err != nil {
			return err
		}
		if err := p.create(ctx, v, owner{job, "batch/v1", "Job"}, template, name); err != nil {
			p.wake(v, v.now.Add(retryCreate))
			v.refusals[p.likeOf(job)] = err
			return err
		}
	}
	return nil
}

// like is what Jobs of one CronJob have in common whose pods are the same: where one is refused, so are those of the
// others until the step ends, since nothing of a quota becomes free before that. A CronJob may have hundreds that wait.
type like struct {
	cronJob  types.UID
	template string
}

func (p *Plane) likeOf(job *batchv1.Job) like {
	of := like{cronJob: job.UID}
	if owner := metav1.GetControllerOfNoCopy(job); owner != nil {
		of = like{owner.UID, p.hashOf(job, job.Spec.Template)}
	}
	return of
}

// backoff is when the next pod may be made: 10 s after the last failure, doubled with each, at most 10 min.
func backoff(pods []*corev1.Pod, failures int32) time.Time {
	var last time.Time
	for _, pod := range pods {
		if pod.Status.Phase != corev1.PodFailed {
			continue
		}
		for _, s := range pod.Status.ContainerStatuses {
			if t := s.State.Terminated; t != nil && t.FinishedAt.After(last) {
				last = t.FinishedAt.Time
			}
		}
	}
	if last.IsZero() || failures == 0 {
		return time.Time{}
	}
	return last.Add(min(podFailureBackOff<<min(failures-1, 10), maxPodFailureBackOff))
}

// finish sets the two conditions of an end.
func finish(v *view, status *batchv1.JobStatus, first, then batchv1.JobConditionType, reason, message string) {
	for _, kind := range []batchv1.JobConditionType{first, then} {
		status.Conditions = append(status.Conditions, batchv1.JobCondition{
			Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message, LastProbeTime: stored(v.now), LastTransitionTime: stored(v.now),
		})
	}
}

// suspend notes that a Job is suspended or goes on.
func (p *Plane) suspend(v *view, job *batchv1.Job, status *batchv1.JobStatus) {
	want, reason := corev1.ConditionFalse, "JobResumed"
	if ptr.Deref(job.Spec.Suspend, false) {
		want, reason = corev1.ConditionTrue, "JobSuspended"
		status.StartTime = nil
	}
	i := slices.IndexFunc(status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == batchv1.JobSuspended })
	switch {
	case i < 0 && want == corev1.ConditionTrue:
		status.Conditions = append(status.Conditions, batchv1.JobCondition{Type: batchv1.JobSuspended, Status: want, Reason: reason, Message: "Job suspended", LastProbeTime: stored(v.now), LastTransitionTime: stored(v.now)})
	case i >= 0 && status.Conditions[i].Status != want:
		status.Conditions[i].Status, status.Conditions[i].Reason, status.Conditions[i].LastTransitionTime = want, reason, stored(v.now)
	}
}

func (p *Plane) storeJob(ctx context.Context, v *view, job *batchv1.Job, status *batchv1.JobStatus) error {
	if equality.Semantic.DeepEqual(&job.Status, status) {
		return nil
	}
	changed := job.DeepCopy()
	changed.Status = *status
	if err := p.Client.Status().Update(ctx, changed); err != nil {
		return fmt.Errorf("job %s: %w", job.Name, err)
	}
	swap(v.jobs, changed)
	return nil
}

// jobEnd: the Job is complete or has failed.
func jobEnd(job *batchv1.Job) (over, succeeded bool) {
	for _, c := range job.Status.Conditions {
		if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
			return true, c.Type == batchv1.JobComplete
		}
	}
	return false, false
}

// endedAt is when a Job was over.
func endedAt(job *batchv1.Job) time.Time {
	for _, c := range job.Status.Conditions {
		if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// expire deletes a Job that is over once its time to live has passed, and lets go of pods that ended after it.
func (p *Plane) expire(ctx context.Context, v *view, job *batchv1.Job) error {
	var left batchv1.JobStatus
	if err := p.release(ctx, v, count(v.podsOf(job), &left)); err != nil {
		return err
	}
	if job.Spec.TTLSecondsAfterFinished == nil {
		return nil
	}
	at := endedAt(job).Add(time.Duration(*job.Spec.TTLSecondsAfterFinished) * time.Second)
	if v.now.Before(at) {
		p.wake(v, at)
		return nil
	}
	return client.IgnoreNotFound(p.Client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground)))
}
