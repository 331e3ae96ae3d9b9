package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/cluster"
	"attune.io/attune/test/deploy"
)

// embeddedSettings of an operator that has no Prometheus server.
var embeddedSettings = append([]string{
	"usage.source=embedded", "usage.prometheus.address=", "replicas=1", "certs.provider=self-signed",
}, settings...)

// scraped is the cluster of TestEmbedded.
func scraped() installation {
	// The operator is on the other one: of a pod on a node whose kubelet does not answer, nobody reads the log.
	return installation{options: cluster.Options{Nodes: 2}, reserved: []int{2}, settings: embeddedSettings}
}

// TestEmbedded runs the operator without a Prometheus server: it measures the kubelets itself, recommends,
// resizes and reverts by what it measured, goes on after a kill -9 where it was, and says which kubelet does
// not answer.
func TestEmbedded(t *testing.T) { alone(t, embedded) }

func embedded(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	namespace(ctx, t, "scraped", true)
	busy := app("app", size{cpu: "100m", cpuLimit: "200m", memory: "64Mi"})
	busy.Env[0].Value = "5"
	d := newDeployment("scraped", "busy", 1, busy)
	onNode(&d.Spec.Template.Spec, 1) // the other one's kubelet will not answer
	createFor(t, d)
	ready(ctx, t, d)
	steady := steadyWorkload(t)
	policy := policyFor(ctx, t, d, v1alpha1.UpdateAuto, func(s *v1alpha1.AttunePolicySpec) {
		s.MetricsSource = &v1alpha1.MetricsSource{
			HistoryWindow: duration(time.Hour), QueryStep: duration(30 * time.Second), RateWindow: duration(time.Minute), MinimumDataPoints: ptr.To(int32(3)),
		}
		// The limit becomes 20m. With a request of 10m the container got 35m on a machine that was busy eightfold: a limit
		// of 40m was not used up in each period.
		s.CPU.MaxAllowed = ptr.To(resource.MustParse("10m"))
		// What is judged at the end are the last 60 s, which are all after the load came.
		s.UpdateStrategy.SafetyObservationPeriod = duration(2 * time.Minute)
		// Memory has a value one step before CPU, whose rate takes two: it would be lowered first, by itself.
		s.Memory.AllowDecrease = ptr.To(false)
	})
	// The parts build on each other: a failed one leaves nothing for the next. The second loads the pod while the watch
	// of the first is open: nothing may come between them.
	for _, part := range []embeddedPart{
		{"a workload that was only scraped is lowered", lowered},
		{"throttling, which only cAdvisor tells of, is reverted", throttledAndReverted},
	} {
		if !t.Run(part.name, func(t *testing.T) { part.test(t, d, policy) }) {
			return
		}
	}
	for _, part := range []embeddedPart{
		{"what a workload uses is measured as it is", func(t *testing.T, _ *appsv1.Deployment, _ *v1alpha1.AttunePolicy) { measuredAsItIs(t, steady) }},
		{"a killed operator goes on where it was", goesOn},
		{"a kubelet that does not answer is named", unanswered},
	} {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			part.test(t, d, policy.DeepCopy())
		})
	}
}

// steadyWorkload uses 60m and 100 MiB, and nothing bounds what is made of that.
func steadyWorkload(t *testing.T) *appsv1.Deployment {
	t.Helper()
	c := app("app", size{cpu: "100m", memory: "256Mi"})
	c.Env[0].Value, c.Env[1].Value = "60", "100"
	d := newDeployment("scraped", "steady", 1, c)
	onNode(&d.Spec.Template.Spec, 1)
	createFor(t, d)
	ready(t.Context(), t, d)
	policyFor(t.Context(), t, d, v1alpha1.UpdateRecommend, func(s *v1alpha1.AttunePolicySpec) {
		s.MetricsSource = &v1alpha1.MetricsSource{
			HistoryWindow: duration(time.Hour), QueryStep: duration(30 * time.Second), RateWindow: duration(time.Minute), MinimumDataPoints: ptr.To(int32(3)),
		}
		s.CPU.MaxAllowed, s.Memory.MaxAllowed = nil, nil
	})
	return d
}

// measuredAsItIs: the percentiles that the recommendation begins with are what the workload uses, however busy the
// machine is; what it is given is 20 and 30 % more, and up to twice that for want of history.
func measuredAsItIs(t *testing.T, d *appsv1.Deployment) {
	target := targetOfBoth(t, d)
	t.Logf("60m and 100 MiB used: %s and %s", target.CPURequest, target.MemoryRequest)
	cpuAsItIs(t, target)
	memoryAsItIs(t, target)
}

// targetOfBoth resources, once a workload's container has them.
func targetOfBoth(t *testing.T, d *appsv1.Deployment) (target v1alpha1.Resources) {
	eventually(t, "targets of both", func() error {
		rec, err := recommendation(t.Context(), d)
		if err != nil {
			return err
		}
		if len(rec.Spec.Containers) == 1 {
			target = rec.Spec.Containers[0].Target
		}
		if target.CPURequest == nil || target.MemoryRequest == nil {
			return fmt.Errorf("containers %v", rec.Spec.Containers)
		}
		return nil
	})
	return target
}

// cpuAsItIs: what it is told to use, or somewhat less where there is not enough.
func cpuAsItIs(t *testing.T, target v1alpha1.Resources) {
	assert.GreaterOrEqual(t, target.CPURequest.MilliValue(), int64(50), "60m, 20 % more, and a third less where the machine has not enough")
	assert.LessOrEqual(t, target.CPURequest.MilliValue(), int64(190))
}

// memoryAsItIs: the process itself takes some memory beside what it was told to hold.
func memoryAsItIs(t *testing.T, target v1alpha1.Resources) {
	assert.GreaterOrEqual(t, target.MemoryRequest.Value(), int64(130*mebibyte))
	assert.LessOrEqual(t, target.MemoryRequest.Value(), int64(325*mebibyte))
}

type embeddedPart struct {
	name string
	test func(*testing.T, *appsv1.Deployment, *v1alpha1.AttunePolicy)
}

func lowered(t *testing.T, d *appsv1.Deployment, _ *v1alpha1.AttunePolicy) {
	ctx := t.Context()
	pod := pods(ctx, t, d)[0]
	eventually(t, "lowered", func() error {
		if err := env.client.Get(ctx, client.ObjectKeyFromObject(&pod), &pod); err != nil {
			return err
		}
		if got := sizeOf(pod.Spec.Containers[0].Resources); got.cpu != "10m" || got.cpuLimit != "20m" {
			rec, err := recommendation(ctx, d)
			if err != nil {
				return err
			}
			return fmt.Errorf("it has %v; %v", got, rec.Spec.Containers)
		}
		return nil
	})
	rec, err := recommendation(ctx, d)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, rec.Spec.Containers[0].DataPoints, int32(3))
	require.Len(t, rec.Spec.Checkpoints, 1)
	assert.Less(t, len(rec.Spec.Checkpoints[0].Data), 2048)
}

// goesOn: the process is killed, and its container started again with the same volume.
func goesOn(t *testing.T, d *appsv1.Deployment, policy *v1alpha1.AttunePolicy) {
	ctx := t.Context()
	if runsHere(climbTest) {
		<-climbsOver
	}
	before, err := recommendation(ctx, d)
	require.NoError(t, err)
	restarts := restartsOf(ctx, t)
	killed := killLeader(ctx, t, leader(ctx, t))
	again := renewedAfter(ctx, t, killed).Spec.RenewTime
	require.Less(t, again.Sub(killed), 2*time.Minute, "the kubelet starts it, and it acquires its lease")
	var after *v1alpha1.AttuneRecommendation
	eventually(t, "it measures again", func() error {
		if n := restartsOf(ctx, t); n <= restarts {
			return fmt.Errorf("%d restarts", n)
		}
		if after, err = recommendation(ctx, d); err != nil {
			return err
		}
		if enough := killed.Add(90 * time.Second); time.Now().Before(enough) {
			return errors.New("it cannot have measured for long enough")
		} else if !after.Spec.DataUntil.After(enough) {
			return errors.Join(fmt.Errorf("data until %s, killed at %s", after.Spec.DataUntil, killed), requeryUsage(ctx, policy, after))
		}
		return nil
	})
	steps := int(after.Spec.DataUntil.Sub(before.Spec.DataUntil.Time) / (30 * time.Second))
	gained := int(after.Spec.Containers[0].DataPoints - before.Spec.Containers[0].DataPoints)
	// Samples since the checkpoint are lost (docs/usage-sources.md), and the operator's absence: no other steps, of which the first
	// and the last are cut.
	lost := again.Sub(before.Spec.DataUntil.Time)
	t.Logf("%d of %d steps of 30 s were measured across the kill; lost may be %s, %s of which the operator was away", gained, steps, lost.Round(time.Second), again.Sub(killed).Round(time.Second))
	assert.GreaterOrEqual(t, gained, steps-1-int(lost/(30*time.Second)))
	target, was := after.Spec.Containers[0].Target, before.Spec.Containers[0].Target
	assert.Equal(t, was.CPURequest, target.CPURequest)
	assert.Equal(t, was.CPULimit, target.CPULimit)
	// With each step less is added to memory for what the history lacks.
	assert.InEpsilon(t, was.MemoryRequest.AsApproximateFloat64(), target.MemoryRequest.AsApproximateFloat64(), 0.1)
}

// requeryUsage has a recommendation stored as it is known now, by a change of its policy that is no change for it, where
// the last one was answered.
func requeryUsage(ctx context.Context, policy *v1alpha1.AttunePolicy, rec *v1alpha1.AttuneRecommendation) error {
	if err := env.client.Get(ctx, client.ObjectKeyFromObject(policy), policy); err != nil || rec.Spec.Policy.Generation < policy.Generation {
		return err
	}
	before := policy.DeepCopy()
	policy.Spec.Weight = ptr.To(1 + ptr.Deref(policy.Spec.Weight, 100)%1000)
	return env.client.Patch(ctx, policy, client.MergeFrom(before))
}

func restartsOf(ctx context.Context, t *testing.T) int32 {
	t.Helper()
	n := int32(0)
	for _, pod := range operatorPods(ctx, t, controllers) {
		for _, c := range pod.Status.ContainerStatuses {
			n += c.RestartCount
		}
	}
	return n
}

func throttledAndReverted(t *testing.T, d *appsv1.Deployment, _ *v1alpha1.AttunePolicy) {
	ctx := t.Context()
	pod := pods(ctx, t, d)[0]
	use(ctx, t, &pod, "cpu=300")
	within(t, 6*time.Minute, "reverted", func() error {
		rec, err := recommendation(ctx, d)
		if err != nil {
			return err
		}
		for _, entry := range rec.Status.History {
			if entry.Result == "Reverted" && entry.Reason == "throttle" {
				return nil
			}
		}
		return fmt.Errorf("phase %s, history %v", rec.Status.Phase, rec.Status.History)
	})
	use(ctx, t, &pod, "cpu=5")
}

// unanswered: policies with pods on the node say that it does not answer, others do not. With -outage, the usage of these
// pods gets out of date, and is fresh three minutes after the node answers again.
func unanswered(t *testing.T, _ *appsv1.Deployment, elsewhere *v1alpha1.AttunePolicy) {
	ctx := t.Context()
	namespace(ctx, t, "unscraped", true)
	d := newDeployment("unscraped", "steady", 1, app("app", size{cpu: "100m", memory: "64Mi"}))
	onNode(&d.Spec.Template.Spec, 2)
	createFor(t, d)
	ready(ctx, t, d)
	there := policyFor(ctx, t, d, v1alpha1.UpdateRecommend, func(s *v1alpha1.AttunePolicySpec) {
		s.MetricsSource = &v1alpha1.MetricsSource{
			HistoryWindow: duration(time.Hour), QueryStep: duration(30 * time.Second), RateWindow: duration(time.Minute), MinimumDataPoints: ptr.To(int32(3)),
		}
	})
	targetOfBoth(t, d)
	node := nodeName(2)
	rule := []string{"INPUT", "-p", "tcp", "--dport", "10250", "-j", "REJECT", "--reject-with", "tcp-reset"}
	change := func(ctx context.Context, what string) error {
		cmd, err := env.cluster.NodeCommand(ctx, 2, "iptables", append([]string{what}, rule...)...)
		if err != nil {
			return err
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	says := func(policy *v1alpha1.AttunePolicy) (string, error) {
		err := env.client.Get(ctx, client.ObjectKeyFromObject(policy), policy)
		ready := meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionReady)
		if err != nil || ready == nil {
			return "", fmt.Errorf("no Ready condition (%v)", err)
		}
		return ready.Message, nil
	}
	require.NoError(t, change(ctx, "-I"))
	t.Cleanup(func() { _ = change(context.WithoutCancel(ctx), "-D") })
	eventually(t, "the policy says that there is one, and the log which", func() error {
		message, err := says(there)
		if err == nil && !strings.Contains(message, "1 of 2 nodes cannot be scraped") {
			err = fmt.Errorf("it says %q", message)
		}
		return errors.Join(err, logged(ctx, "Some nodes cannot be scraped", node+": /metrics/"))
	})
	message, err := says(elsewhere)
	require.NoError(t, err)
	assert.NotContains(t, message, "cannot be scraped")
	outOfDate(t, d)
	require.NoError(t, change(ctx, "-D"))
	freshAgain(t, d)
	eventually(t, "the policy says so no more", func() error {
		message, err := says(there)
		if err == nil && strings.Contains(message, "cannot be scraped") {
			err = fmt.Errorf("it says %q", message)
		}
		return err
	})
}

// logged: the operator's log has a line with all of these.
func logged(ctx context.Context, parts ...string) error {
	out, err := env.cluster.Command(ctx, "kubectl", "logs", "-n", deploy.Namespace, "-l", "app.kubernetes.io/name=attune", "--tail=-1").Output()
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(out)) {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
			return nil
		}
	}
	return fmt.Errorf("no line of the log has %q", parts)
}
