package plane

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/test/kubelet"
)

func statefulSet(name string, replicas int32) *appsv1.StatefulSet {
	s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	s.Spec.Replicas, s.Spec.ServiceName, s.Spec.Template = &replicas, name, template(name, "100m", "128Mi")
	s.Spec.Selector, _ = labelled(name)
	return s
}

// names of pods, each with the image's version.
func versions(pods []corev1.Pod) (list []string) {
	for _, pod := range pods {
		image := pod.Spec.Containers[0].Image
		list = append(list, pod.Name+":"+image[len(image)-1:])
	}
	return list
}

// Pods come one after the other, each when the one before is ready; a rollout goes from the top, one at a time, down to
// the partition; scaling down from the top as well.
func TestStatefulSetKeepsItsOrder(t *testing.T) {
	l := newLab(t, 2, kubelet.Options{StartAfter: 10 * time.Second})
	s := statefulSet("db", 3)
	l.create(s)
	l.run(5 * time.Second)
	assert.Equal(t, []string{"db-0:1"}, versions(l.pods("db-")))
	l.run(10 * time.Second)
	assert.Equal(t, []string{"db-0:1", "db-1:1"}, versions(l.pods("db-")))
	l.run(time.Minute)
	assert.Equal(t, []string{"db-0:1", "db-1:1", "db-2:1"}, versions(l.pods("db-")))
	first := read(l, s).Status.CurrentRevision
	for i, pod := range l.pods("db-") {
		assert.Equal(t, map[string]string{
			"app": "db", "controller-revision-hash": first, "statefulset.kubernetes.io/pod-name": pod.Name, "apps.kubernetes.io/pod-index": fmt.Sprint(i),
		}, pod.Labels)
		assert.Equal(t, pod.Name, pod.Spec.Hostname)
	}

	edit(l, s, func(s *appsv1.StatefulSet) {
		s.Spec.Template.Spec.Containers[0].Image = "example.org/app:2"
		s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To[int32](1)}
	})
	l.watched = func() {
		missing := 3
		for _, pod := range l.pods("db-") {
			if active(&pod) && ready(&pod) {
				missing--
			}
		}
		assert.LessOrEqual(t, missing, 1)
	}
	l.run(2 * time.Minute)
	assert.Equal(t, []string{"db-0:1", "db-1:2", "db-2:2"}, versions(l.pods("db-")), "down to the partition")
	status := read(l, s).Status
	assert.Equal(t, first, status.CurrentRevision)
	assert.NotEqual(t, first, status.UpdateRevision)
	assert.Equal(t, []int32{1, 2}, []int32{status.CurrentReplicas, status.UpdatedReplicas})
	gone := l.pods("db-")[0]
	require.NoError(t, l.Client.Delete(t.Context(), &gone))
	l.run(time.Minute)
	assert.Equal(t, "db-0:1", versions(l.pods("db-"))[0], "what is below the partition comes back as it was")

	edit(l, s, func(s *appsv1.StatefulSet) { s.Spec.UpdateStrategy.RollingUpdate.Partition = nil })
	l.run(2 * time.Minute)
	assert.Equal(t, []string{"db-0:2", "db-1:2", "db-2:2"}, versions(l.pods("db-")))
	status = read(l, s).Status
	assert.Equal(t, status.UpdateRevision, status.CurrentRevision)
	l.watched = func() {}
	edit(l, s, func(s *appsv1.StatefulSet) { s.Spec.Replicas = ptr.To[int32](1) })
	l.run(time.Minute)
	assert.Equal(t, []string{"db-0:2"}, versions(l.pods("db-")))
}

func daemonSet(name string) *appsv1.DaemonSet {
	d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	d.Spec.Template = template(name, "100m", "128Mi")
	d.Spec.Selector, _ = labelled(name)
	return d
}

// A DaemonSet has one pod on each node, also on cordoned and new ones, and rolls one at a time.
func TestDaemonSetIsOnEveryNode(t *testing.T) {
	l := newLab(t, 3, kubelet.Options{StartAfter: 5 * time.Second})
	require.NoError(t, l.Cordon(t.Context(), "node-1", true))
	d := daemonSet("agent")
	l.create(d)
	l.run(time.Minute)
	on := func() map[string]string {
		nodes := map[string]string{}
		for _, pod := range l.pods("agent-") {
			assert.Empty(t, nodes[pod.Spec.NodeName], "two on a node")
			nodes[pod.Spec.NodeName] = versions([]corev1.Pod{pod})[0]
		}
		return nodes
	}
	assert.Len(t, on(), 3)
	pod := l.pods("agent-")[0]
	assert.Regexp(t, regexp.MustCompile(`^agent-[bcdfghjklmnpqrstvwxz2456789]{5}$`), pod.Name)
	assert.Equal(t, "1", pod.Labels["pod-template-generation"])
	assert.NotEmpty(t, pod.Labels["controller-revision-hash"])
	term := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0]
	assert.Equal(t, "metadata.name In "+pod.Spec.NodeName, fmt.Sprintf("%s %s %s", term.Key, term.Operator, term.Values[0]))
	l.join("node-3", kubelet.Options{})
	l.run(time.Minute)
	assert.Len(t, on(), 4)
	least := int32(4)
	l.watched = func() { least = min(least, read(l, d).Status.NumberAvailable) }
	edit(l, d, func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.Containers[0].Image = "example.org/app:2" })
	l.run(5 * time.Minute)
	assert.Equal(t, int32(3), least)
	status := read(l, d).Status
	assert.Equal(t, []int32{4, 4, 4}, []int32{status.DesiredNumberScheduled, status.UpdatedNumberScheduled, status.NumberAvailable})
}

// ends has every container end after a while, with a code.
type ends struct {
	after time.Duration
	code  func(pod *corev1.Pod) int32
}

func (ends) Memory(kubelet.Run, time.Time) (needs, holds int64) { return 1 << 20, 1 << 20 }
func (ends) Healthy(kubelet.Run, time.Time) (alive, ready bool) { return true, true }
func (e ends) Ends(run kubelet.Run) (time.Time, int32) {
	return run.StartedAt.Add(e.after), e.code(run.Pod)
}
func (e ends) Next(run kubelet.Run, now time.Time) time.Time {
	if at, _ := e.Ends(run); at.After(now) {
		return at
	}
	return time.Time{}
}

func jobSpec(policy corev1.RestartPolicy) batchv1.JobSpec {
	spec := batchv1.JobSpec{Template: template("job", "100m", "128Mi")}
	spec.Template.Spec.RestartPolicy = policy
	return spec
}

func code(n int32) func(*corev1.Pod) int32 { return func(*corev1.Pod) int32 { return n } }

// What becomes of a Job, by its pods' ends.
func TestJobEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		policy    corev1.RestartPolicy
		code      int32
		spec      func(*batchv1.JobSpec)
		within    time.Duration
		condition string
		succeeded int32
		failed    int32
		restarts  int32
	}{
		"completed": {policy: corev1.RestartPolicyNever, within: 2 * time.Minute, condition: "Complete CompletionsReached", succeeded: 3,
			spec: func(s *batchv1.JobSpec) { s.Completions, s.Parallelism = ptr.To[int32](3), ptr.To[int32](2) }},
		// Pods after 10 s, 20 s, ... and each runs for 30 s.
		"failed": {policy: corev1.RestartPolicyNever, code: 1, within: 6 * time.Minute, condition: "Failed BackoffLimitExceeded", failed: 4,
			spec: func(s *batchv1.JobSpec) { s.Completions, s.BackoffLimit = ptr.To[int32](1), ptr.To[int32](3) }},
		"failed in place": {policy: corev1.RestartPolicyOnFailure, code: 1, within: 6 * time.Minute, condition: "Failed BackoffLimitExceeded",
			spec: func(s *batchv1.JobSpec) { s.Completions, s.BackoffLimit = ptr.To[int32](1), ptr.To[int32](3) }},
		"overdue": {policy: corev1.RestartPolicyNever, within: 2 * time.Minute, condition: "Failed DeadlineExceeded",
			spec: func(s *batchv1.JobSpec) { s.Completions, s.ActiveDeadlineSeconds = ptr.To[int32](1), ptr.To[int64](20) }},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 1, kubelet.Options{Processes: ends{30 * time.Second, code(tc.code)}, RestartAfter: time.Second})
			job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "import"}, Spec: jobSpec(tc.policy)}
			tc.spec(&job.Spec)
			l.create(job)
			l.run(5 * time.Second)
			for _, pod := range l.pods("import-") {
				assert.Regexp(t, regexp.MustCompile(`^import-[bcdfghjklmnpqrstvwxz2456789]{5}$`), pod.Name)
				assert.Equal(t, "import", pod.Labels["batch.kubernetes.io/job-name"])
				assert.Equal(t, string(job.UID), pod.Labels["batch.kubernetes.io/controller-uid"])
				assert.Equal(t, []string{"batch.kubernetes.io/job-tracking"}, pod.Finalizers)
			}
			l.run(tc.within)
			status := read(l, job).Status
			require.NotEmpty(t, status.Conditions)
			last := status.Conditions[len(status.Conditions)-1]
			assert.Equal(t, tc.condition, fmt.Sprintf("%s %s", last.Type, last.Reason))
			assert.Equal(t, tc.succeeded, status.Succeeded)
			if tc.failed > 0 {
				assert.Equal(t, tc.failed, status.Failed)
			}
			assert.Zero(t, status.Active)
			for _, pod := range l.pods("import-") {
				assert.Empty(t, pod.Finalizers, "what was counted may go")
			}
		})
	}
}

// A CronJob's Jobs are named by their minute, the history keeps as many as it may, and no two run at once where that is
// forbidden.
func TestCronJobKeepsItsHistory(t *testing.T) {
	for name, tc := range map[string]struct {
		runs        time.Duration
		concurrency batchv1.ConcurrencyPolicy
		fails       int64
		keep        *int32
		jobs        []string
		running     int
	}{
		// beginning is minute 29671920 since 1970.
		"plain": {runs: time.Minute, jobs: []string{"tick-29671965", "tick-29671970", "tick-29671975", "tick-29671980"}, running: 1},
		"kept":  {runs: time.Minute, keep: ptr.To[int32](6), jobs: []string{"tick-29671950", "tick-29671955", "tick-29671960", "tick-29671965", "tick-29671970", "tick-29671975", "tick-29671980"}, running: 1},
		// What came due meanwhile begins late, as the last time that was missed: minutes 5, 15, 25, 40, 50.
		"forbidden": {runs: 12 * time.Minute, concurrency: batchv1.ForbidConcurrent, jobs: []string{"tick-29671935", "tick-29671945", "tick-29671960", "tick-29671970"}, running: 1},
		"allowed":   {runs: 12 * time.Minute, jobs: []string{"tick-29671955", "tick-29671960", "tick-29671965", "tick-29671970", "tick-29671975", "tick-29671980"}, running: 3},
		"replaced":  {runs: 12 * time.Minute, concurrency: batchv1.ReplaceConcurrent, jobs: []string{"tick-29671980"}, running: 1},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 1, kubelet.Options{Processes: ends{tc.runs, code(0)}})
			require.Equal(t, int64(29671920), beginning.Unix()/60)
			c := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tick"}}
			c.Spec.Schedule, c.Spec.ConcurrencyPolicy, c.Spec.SuccessfulJobsHistoryLimit = "*/5 * * * *", tc.concurrency, tc.keep
			c.Spec.JobTemplate.Spec = jobSpec(corev1.RestartPolicyNever)
			l.create(c)
			l.run(time.Hour + 30*time.Second)
			list := &batchv1.JobList{}
			require.NoError(t, l.Client.List(t.Context(), list, client.InNamespace(namespace)))
			var names []string
			running := 0
			for _, job := range list.Items {
				names = append(names, job.Name)
				if over, _ := jobEnd(&job); !over {
					running++
				}
				assert.NotEmpty(t, job.Annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"])
			}
			assert.Equal(t, tc.jobs, names)
			assert.Equal(t, tc.running, running)
			assert.Len(t, read(l, c).Status.Active, tc.running)
			assert.Equal(t, len(tc.jobs), len(l.pods("tick-")), "each with its pod")
		})
	}
}

// Cron expressions name the times that cron's own page says.
func TestSchedules(t *testing.T) {
	at := func(text string) time.Time {
		parsed, err := time.Parse("2006-01-02 15:04", text)
		require.NoError(t, err)
		return parsed
	}
	for _, tc := range []struct{ schedule, after, want string }{
		{"*/15 * * * *", "2026-06-01 12:07", "2026-06-01 12:15"},
		{"0 3 * * *", "2026-06-01 12:07", "2026-06-02 03:00"},
		{"30 2 1 * *", "2026-06-01 12:07", "2026-07-01 02:30"},
		{"0 0 29 2 *", "2026-06-01 12:07", "2028-02-29 00:00"},
		{"0 9-17/4 * * 1-5", "2026-06-05 17:30", "2026-06-08 09:00"},
		{"0 0 13 * 5", "2026-06-01 12:07", "2026-06-05 00:00"},
		{"@hourly", "2026-12-31 23:30", "2027-01-01 00:00"},
		{"5,10 * * * *", "2026-06-01 12:05", "2026-06-01 12:10"},
	} {
		s, err := parseSchedule(tc.schedule)
		require.NoError(t, err, tc.schedule)
		assert.Equal(t, at(tc.want), s.next(at(tc.after)), tc.schedule)
	}
	for _, bad := range []string{"", "* * * *", "60 * * * *", "*/0 * * * *", "5-1 * * * *", "x * * * *"} {
		_, err := parseSchedule(bad)
		assert.Error(t, err, bad)
	}
}
