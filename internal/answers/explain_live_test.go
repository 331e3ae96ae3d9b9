package answers_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// stored is the recommendation of a Deployment with one container: the CPU target is 200m instead of 500m, memory stays
// at 1Gi.
func stored() *v1alpha1.AttuneRecommendation {
	floor := resource.MustParse("600Mi")
	return &v1alpha1.AttuneRecommendation{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "deployment-web"},
		Spec: v1alpha1.AttuneRecommendationSpec{
			Workload: v1alpha1.WorkloadRef{Kind: v1alpha1.KindDeployment, Name: "web"},
			Policy:   v1alpha1.PolicyRef{Name: "api"},
			Mode:     v1alpha1.UpdateAuto,
			Containers: []v1alpha1.ContainerTarget{{
				Name:             "app",
				Target:           podview.ToResources(size(200, 400, 1<<30, 2<<30)),
				MemoryLimitFloor: &floor,
				Confidence:       "0.92",
				DataPoints:       1680,
				Steps: []v1alpha1.Step{
					{Resource: "cpu", Name: "percentile", Before: "0", After: "160m", Reason: "95th percentile"},
					{Resource: "cpu", Name: "bounds", Before: "200m", After: "200m", Reason: "no bounds are set"},
					{Resource: "memory", Name: "bounds", Before: "1Gi", After: "1Gi", Reason: "no bounds are set"},
				},
			}},
		},
	}
}

func pod(name string, has recommender.Size) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pod-template-hash": "one"}}, Spec: template(has).Spec}
}

func template(has recommender.Size) *corev1.PodTemplateSpec {
	return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: podview.ToRequirements(has)}}}}
}

func live(rec *v1alpha1.AttuneRecommendation, pods ...*corev1.Pod) answers.View {
	return answers.View{
		Recommendation: rec,
		Settings:       &policy.Settings{Recommender: settings()},
		Workload:       workload.Workload{Template: template(size(500, 1000, 1<<30, 2<<30))},
		Pods:           pods,
	}
}

func only(t *testing.T, v answers.View) answers.ExplainedContainer {
	t.Helper()
	answer, err := answers.Explain(v, nil, time.Time{})
	require.NoError(t, err)
	require.Len(t, answer.Containers, 1)
	return answer.Containers[0]
}

// Containers that admission injected are named: a mesh's proxy as an ordinary container and as a native sidecar.
func TestLiveNamesInjectedContainers(t *testing.T) {
	var pods []*corev1.Pod
	for _, name := range []string{"web-1", "web-2"} {
		p := pod(name, size(200, 400, 1<<30, 2<<30))
		always := corev1.ContainerRestartPolicyAlways
		p.Spec.InitContainers = []corev1.Container{{Name: "migrate"}, {Name: "istio-proxy", RestartPolicy: &always, Resources: podview.ToRequirements(size(100, 2000, 128<<20, 1<<30))}}
		pods = append(pods, p)
	}
	pods[1].Spec.Containers = append(pods[1].Spec.Containers, corev1.Container{Name: "vault-agent"})
	v := live(stored(), pods...)
	v.Settings.Resize.Excluded = map[string]bool{"vault-agent": true}
	answer, err := answers.Explain(v, nil, time.Time{})
	require.NoError(t, err)
	require.Len(t, answer.NotSized, 2)
	assert.True(t, answer.NotSized[0].Sidecar)
	text, err := answer.Human(false)
	require.NoError(t, err)
	assert.Contains(t, text, "Container istio-proxy: injected, not in the pod template; not sized. 2 of 2 pods have it, with requests of 100m CPU and 128Mi memory\n")
	assert.Contains(t, text, "Container vault-agent: injected, not in the pod template, and the policy excludes it; not sized. 1 of 2 pods have it, with requests of none CPU and none memory\n")
	assert.NotContains(t, text, "migrate", "an init container that ends")
	v.Workload.Template = nil
	answer, err = answers.Explain(v, nil, time.Time{})
	require.NoError(t, err)
	assert.Empty(t, answer.NotSized, "the template is not known")
}

func TestLiveTakesEveryPodsOwnStep(t *testing.T) {
	answer, err := answers.Explain(live(stored(),
		pod("web-1", size(200, 400, 1<<30, 2<<30)),
		pod("web-2", size(500, 1000, 1<<30, 2<<30)),
		pod("web-3", size(300, 600, 1<<30, 2<<30)),
	), nil, time.Time{})
	require.NoError(t, err)
	golden(t, "live.json", asJSON(t, answer))
	for name, wide := range map[string]bool{"live.txt": false, "live-wide.txt": true} {
		text, err := answer.Human(wide)
		require.NoError(t, err)
		golden(t, name, text)
	}
}

func TestLiveShowsThePodThatWouldChange(t *testing.T) {
	container := only(t, live(stored(), pod("web-1", size(200, 400, 1<<30, 2<<30)), pod("web-2", size(500, 1000, 1<<30, 2<<30))))
	assert.Equal(t, "500m", deref(container.Current.CPURequest))
	assert.Equal(t, "250m", deref(container.Next.CPURequest))

	container = only(t, live(stored(), pod("web-1", size(200, 400, 1<<30, 2<<30)), pod("web-2", size(210, 420, 1<<30, 2<<30))))
	assert.Equal(t, "200m", deref(container.Current.CPURequest), "the first, where none would change")
	assert.Equal(t, "200m", deref(container.Next.CPURequest))
}

func TestLiveWithoutPodsStartsFromTheTemplate(t *testing.T) {
	container := only(t, live(stored()))
	assert.Equal(t, "500m", deref(container.Current.CPURequest))
	assert.Equal(t, "250m", deref(container.Next.CPURequest))
	assert.Empty(t, container.Pods)
}

func TestLiveKeepsTheRatioOfTheOriginals(t *testing.T) {
	rec := stored()
	rec.Status.Originals = []v1alpha1.Originals{
		{TemplateHash: "other", Containers: []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(size(100, 100, 0, 0))}}},
		{TemplateHash: "one", Containers: []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(size(500, 2000, 1<<30, 1<<30))}}},
	}
	container := only(t, live(rec, pod("web-1", size(500, 2000, 1<<30, 1<<30))))
	assert.Equal(t, "250m", deref(container.Next.CPURequest))
	assert.Equal(t, "1", deref(container.Next.CPULimit))
}

func TestLiveKeepsBlockedResources(t *testing.T) {
	rec := stored()
	rec.Spec.Containers[0].Holds = []v1alpha1.Hold{{Resource: "cpu", Reason: "HPA", Message: "web scales on CPU"}}
	container := only(t, live(rec, pod("web-1", size(500, 1000, 1<<30, 2<<30))))
	assert.Equal(t, "200m", deref(container.Target.CPURequest))
	assert.Equal(t, "500m", deref(container.Next.CPURequest))
	assert.Contains(t, container.Holds, answers.Hold{Resource: "cpu", Reason: "HPA", Message: "web scales on CPU"})
}

func TestLiveSaysByWhichProof(t *testing.T) {
	rec := stored()
	rec.Spec.Containers[0].Kept = []v1alpha1.KeptRequest{{Resource: "cpu", Least: resource.MustParse("150m"), HPAs: []string{"web"}}}
	container := only(t, live(rec, pod("web-1", size(500, 1000, 1<<30, 2<<30))))
	require.Len(t, container.Granted, 1)
	assert.Equal(t, answers.Granted{Container: "app", Resource: "cpu", Proof: "Keep", HPAs: []string{"web"}, Least: "150m", Message: container.Granted[0].Message}, container.Granted[0])
	text, err := answers.Explanation{Containers: []answers.ExplainedContainer{container}}.Human(false)
	require.NoError(t, err)
	assert.Contains(t, text, "    granted, Keep: HorizontalPodAutoscaler web keeps the number of replicas with a request of at least 150m; history since ")
}

func TestLiveHasNoValuesOfUnmeasuredResources(t *testing.T) {
	rec := stored()
	rec.Spec.Containers[0].Target.MemoryRequest, rec.Spec.Containers[0].Target.MemoryLimit = nil, nil
	rec.Spec.Containers[0].Holds = []v1alpha1.Hold{{Resource: "memory", Reason: "NoData"}}
	container := only(t, live(rec, pod("web-1", size(500, 1000, 1<<30, 2<<30))))
	assert.Equal(t, `{"cpuRequest":"250m","cpuLimit":"500m","memoryRequest":null,"memoryLimit":null}`, line(t, container.Next))
	assert.Equal(t, `{"cpuRequest":"250m","cpuLimit":"500m","memoryRequest":null,"memoryLimit":null}`, line(t, container.Pods[0].Next))
}

func TestLiveWithoutSettingsHasNoNextStep(t *testing.T) {
	l := live(stored(), pod("web-1", size(500, 1000, 1<<30, 2<<30)))
	l.Settings = nil
	container := only(t, l)
	assert.Equal(t, answers.Amounts{}, container.Next)
	assert.Equal(t, "200m", deref(container.Target.CPURequest))
	assert.Equal(t, "500m", deref(container.Current.CPURequest))
	assert.Empty(t, container.Pods)
}

func TestLiveWithoutTemplate(t *testing.T) {
	l := live(stored())
	l.Workload.Template = nil
	container := only(t, l)
	assert.Equal(t, answers.Amounts{}, container.Current)
	assert.Equal(t, answers.Amounts{}, container.Next)

	l = live(stored(), pod("web-1", size(500, 2000, 1<<30, 1<<30)))
	l.Workload.Template = nil
	container = only(t, l)
	assert.Equal(t, "250m", deref(container.Next.CPURequest))
	assert.Equal(t, "1", deref(container.Next.CPULimit), "the ratio it has is all there is to keep")
}

func TestLiveDoesNotRepeatAStoredStep(t *testing.T) {
	rec := stored()
	rec.Spec.Containers[0].Steps = append(rec.Spec.Containers[0].Steps,
		v1alpha1.Step{Resource: "cpu", Name: "change", Before: "200m", After: "250m", Reason: "the operator's"})
	container := only(t, live(rec))
	var changes []string
	for _, step := range container.Steps {
		if step.Name == "change" {
			changes = append(changes, step.Resource+": "+step.Reason)
		}
	}
	require.Len(t, changes, 2)
	assert.Equal(t, "cpu: the operator's", changes[0])
	assert.True(t, strings.HasPrefix(changes[1], "memory: "), changes[1])
}

func TestLiveRefusesAConfidenceThatIsNoNumber(t *testing.T) {
	rec := stored()
	rec.Spec.Containers[0].Confidence = "high"
	_, err := answers.Explain(live(rec), nil, time.Time{})
	assert.EqualError(t, err, `AttuneRecommendation shop/deployment-web: container app has the confidence "high", which is not a number: another version of the operator wrote it`)
}

func TestDifferences(t *testing.T) {
	rec := stored()
	different := only(t, live(rec)).Differences()
	require.Len(t, different, 2)
	assert.Equal(t, "requests.cpu 500m 200m", different[0].Name+" "+deref(different[0].Current)+" "+deref(different[0].Target))
	assert.Equal(t, "limits.cpu 1 400m", different[1].Name+" "+deref(different[1].Current)+" "+deref(different[1].Target))

	rec.Spec.Containers[0].Holds = []v1alpha1.Hold{{Resource: "cpu", Reason: "HPA"}}
	assert.Empty(t, only(t, live(rec)).Differences(), "what is held differs in nothing")

	l := live(stored())
	l.Workload.Template = template(size(0, 0, 1<<30, 0))
	different = only(t, l).Differences()
	require.NotEmpty(t, different)
	assert.Nil(t, different[0].Current, "a request that the template does not set")

	l.Workload.Template = template(size(210, 420, 1<<30, 2<<30))
	assert.Empty(t, only(t, l).Differences(), "a change within the dead band is not worth making")
}

// A placeholder of other steps has no amounts.
func TestAStepWithoutAmountsHasOnlyItsReason(t *testing.T) {
	left := answers.ExplainedContainer{Name: "app", Steps: []answers.Step{{Resource: "cpu", Name: "omitted", Reason: "the steps are omitted: the workload has 30 containers"}}}
	out, err := answers.Explanation{Containers: []answers.ExplainedContainer{left}}.Human(true)
	require.NoError(t, err)
	assert.Contains(t, out, "omitted")
	assert.NotContains(t, out, "stays")
}

// What the pod's spec does not allow is not shown as the next size, and each reason has a sentence.
func TestExplainSaysWhatThePodsSpecDoesNotAllow(t *testing.T) {
	memory := func() *v1alpha1.AttuneRecommendation {
		rec := stored()
		rec.Spec.Containers[0].Target = podview.ToResources(size(200, 400, 256<<20, 512<<20))
		rec.Spec.Containers[0].MemoryLimitFloor = nil
		return rec
	}
	has := size(500, 1000, 1<<30, 2<<30)
	known := corev1.EnvVar{Name: "GOMEMLIMIT", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.memory"}}}
	for name, tc := range map[string]struct {
		edit   func(*corev1.PodTemplateSpec)
		holds  []string // resource, reason and a part of the sentence
		limits [2]string
	}{
		"environment": {func(p *corev1.PodTemplateSpec) { p.Spec.Containers[0].Env = []corev1.EnvVar{known} },
			[]string{"memory MemoryLimitInEnvironment", "GOMEMLIMIT took the memory limit"}, [2]string{"500m", "2Gi"}},
		"limit 0": {func(p *corev1.PodTemplateSpec) {
			p.Spec.Containers[0].Resources.Limits["cpu"], p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("0"), resource.MustParse("0")
		}, []string{"cpu FixedLimit", "Remove the limit from the pod template"}, [2]string{"", "1434Mi"}},
		"Kueue": {func(p *corev1.PodTemplateSpec) { p.Labels = map[string]string{"kueue.x-k8s.io/queue-name": "a"} },
			[]string{"cpu Queued", "Kueue reserved quota for the cpu request"}, [2]string{"1", "2Gi"}},
		"memory volume": {func(p *corev1.PodTemplateSpec) {
			p.Spec.Volumes = []corev1.Volume{{Name: "shm", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}}}
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "shm", MountPath: "/dev/shm"}}
		}, []string{"memory MemoryVolume", "without sizeLimit"}, [2]string{"500m", "2Gi"}},
		"heap": {func(p *corev1.PodTemplateSpec) { p.Spec.Containers[0].Args = []string{"-Xmx1800m"} },
			[]string{"memory MemoryLimitInEnvironment", "-Xmx lets the process use memory up to"}, [2]string{"500m", "2Gi"}},
	} {
		for _, runs := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", running"}[runs], func(t *testing.T) {
				if name == "environment" && !runs {
					t.Skip("a created pod learns its own limit")
				}
				v := live(memory())
				v.Settings.Recommender.Of[recommender.Memory].AllowDecrease = true
				v.Workload.Template = template(has)
				tc.edit(v.Workload.Template)
				if runs {
					v.Pods = []*corev1.Pod{{ObjectMeta: v.Workload.Template.ObjectMeta, Spec: v.Workload.Template.Spec}}
				}
				container := only(t, v)
				assert.Equal(t, tc.limits, [2]string{deref(container.Next.CPULimit), deref(container.Next.MemoryLimit)})
				var holds []string
				for _, h := range container.Holds {
					holds = append(holds, h.Resource+" "+h.Reason, h.Message)
				}
				for _, want := range tc.holds {
					assert.Contains(t, strings.Join(holds, "\n"), want)
				}
			})
		}
	}
	v := live(memory(), pod("web-1", has))
	v.Workload.Template.Annotations = map[string]string{"scheduling.k8s.io/group-name": "a"}
	v.Recommendation.Spec.Containers[0].Target = podview.ToResources(size(800, 1600, 1<<30, 2<<30))
	assert.Contains(t, only(t, v).Holds, answers.Hold{Resource: "cpu", Reason: "Queued",
		Message: "new pods: Volcano may have reserved room for the cpu request of the pod template; the request is not raised. Change it in the template"})
}

func TestLiveSaysWhyNewPodsAreNotSized(t *testing.T) {
	rec := stored()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	rec.Status.AdmissionWithdrawn = &v1alpha1.AdmissionWithdrawn{Until: metav1.NewTime(now.Add(time.Hour)), Reason: v1alpha1.ReasonAdmissionRejected,
		Message: `pods "web-x" is forbidden: ValidatingAdmissionPolicy 'small-containers' denied request`}
	answer, err := answers.Explain(live(rec), nil, now)
	require.NoError(t, err)
	text, err := answer.Human(false)
	require.NoError(t, err)
	assert.Contains(t, text, "New pods are created without admission resources until 2026-03-01T13:00:00Z, AdmissionRejected: pods \"web-x\" is forbidden: ValidatingAdmissionPolicy 'small-containers'")
	things := answers.BlockedOfWorkload(&v1alpha1.AttuneRecommendation{Status: v1alpha1.AttuneRecommendationStatus{Conditions: []metav1.Condition{
		{Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAdmissionRejected, Message: "denied"}}}})
	assert.Equal(t, "denied", things[0].Message, "status has it too")
	answer, err = answers.Explain(live(rec), nil, now.Add(2*time.Hour))
	require.NoError(t, err)
	assert.Empty(t, answer.Workload.AdmissionWithdrawn, "one pod is tried")
}

// The setting takes precedence over the namespace: a label would change nothing.
func TestLiveSaysWhyAdmissionSizesNoNewPods(t *testing.T) {
	const unlabelled = "the namespace does not have the label attune.io/inject=enabled"
	for name, c := range map[string]struct {
		change func(*answers.View)
		want   string
	}{
		"sized":         {func(*answers.View) {}, ""},
		"the namespace": {func(v *answers.View) { v.NotSized = unlabelled }, "New pods keep the resources of their template: " + unlabelled + "."},
		"the setting": {func(v *answers.View) { v.NotSized, v.Settings.Admission = unlabelled, v1alpha1.Disabled },
			"New pods keep the resources of their template: the setting admission is Disabled."},
		"the setting, without the policy": {func(v *answers.View) { v.Settings, v.Recommendation.Spec.SeedBlocked = nil, "AdmissionDisabled" },
			"New pods keep the resources of their template: the setting admission is Disabled."},
	} {
		t.Run(name, func(t *testing.T) {
			v := live(stored())
			v.Settings.Resize.Mode = v1alpha1.UpdateAuto
			c.change(&v)
			answer, err := answers.Explain(v, nil, time.Now())
			require.NoError(t, err)
			assert.Equal(t, c.want, answer.Workload.NewPods)
			text, err := answer.Human(false)
			require.NoError(t, err)
			assert.Contains(t, text, c.want)
		})
	}
}

// What blocks the whole workload comes first, because without it the next sizes look like a promise.
func TestExplainSaysWhatBlocksTheWorkload(t *testing.T) {
	rec := stored()
	rec.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionResizeBlocked, Status: metav1.ConditionTrue, Reason: "Skipped", Message: "the workload has the annotation attune.io/skip"}}
	rec.Spec.SeedBlocked = "no data"
	answer, err := answers.Explain(live(rec), nil, time.Time{})
	require.NoError(t, err)
	assert.Equal(t, []answers.Blocked{{Workload: "Deployment/web", Reason: "Skipped", Message: "the workload has the annotation attune.io/skip"}}, answer.Workload.Blocked)
	text, err := answer.Human(false)
	require.NoError(t, err)
	assert.Contains(t, text, "in mode Auto\nBlocked, Skipped: the workload has the annotation attune.io/skip\n")

	rec.Status.Conditions[0].Reason = "Mode"
	answer, err = answers.Explain(live(rec), nil, time.Time{})
	require.NoError(t, err)
	assert.Empty(t, answer.Workload.Blocked, "the sentence about the mode says it")
}

// A CPU limit that stays, or stays lower, although cpu.limits asks for another, has its reason and what lifts it.
func TestExplainSaysWhyACPULimitStays(t *testing.T) {
	two := corev1.ResourceList{"cpu": resource.MustParse("2")}
	remove, ratio := recommender.LimitRule{Remove: true}, recommender.LimitRule{Thousandths: 50000}
	ranges := func(item corev1.LimitRangeItem) func(*answers.View) {
		item.Type = corev1.LimitTypeContainer
		return func(v *answers.View) {
			v.LimitRanges = []corev1.LimitRange{{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{item}}}}
		}
	}
	quota := func(name corev1.ResourceName) func(*answers.View) {
		return func(v *answers.View) {
			v.Quotas = []corev1.ResourceQuota{{Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{name: resource.MustParse("10")}}}}
		}
	}
	const ofRange = "new pods: the CPU limit stays: a LimitRange of the namespace has a default, max or maxLimitRequestRatio of CPU. Remove it"
	for name, c := range map[string]struct {
		rule recommender.LimitRule
		edit func(*answers.View)
		want string
	}{
		"nothing needs it":    {remove, func(*answers.View) {}, ""},
		"Keep":                {recommender.LimitRule{}, ranges(corev1.LimitRangeItem{Default: two}), ""},
		"a default":           {remove, ranges(corev1.LimitRangeItem{Default: two}), ofRange},
		"a max":               {remove, ranges(corev1.LimitRangeItem{Max: two}), ofRange},
		"a min alone":         {remove, ranges(corev1.LimitRangeItem{Min: two}), ""},
		"a quota of limits":   {remove, quota("limits.cpu"), "new pods: the CPU limit stays: a ResourceQuota of the namespace counts limits.cpu, and rejects containers without one. Remove limits.cpu from it"},
		"a quota of requests": {remove, quota("requests.cpu"), ""},
		"Guaranteed":          {remove, func(v *answers.View) { v.Workload.Template = template(size(500, 500, 1<<30, 1<<30)) }, "new pods: the CPU limit stays: the pod is Guaranteed, and without the limit it would be Burstable. Set a request below a limit in the pod template"},
		"a ratio above a max": {ratio, ranges(corev1.LimitRangeItem{Max: two}), "new pods: cpu.limits asks for a limit of 10, and a LimitRange of the namespace allows 2. Raise its max of CPU"},
		"a ratio":             {ratio, func(*answers.View) {}, ""},
		"the mode sizes no pods": {remove, func(v *answers.View) {
			v.Recommendation.Spec.Mode = v1alpha1.UpdateRecommend
			ranges(corev1.LimitRangeItem{Max: two})(v)
		}, ""},
		"CPU is blocked": {remove, func(v *answers.View) {
			v.Recommendation.Spec.Containers[0].Holds = []v1alpha1.Hold{{Resource: "cpu", Reason: "HPA"}}
			ranges(corev1.LimitRangeItem{Max: two})(v)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			v := live(stored())
			v.Settings.Recommender.Of[recommender.CPU].Limits = c.rule
			c.edit(&v)
			said := ""
			for _, h := range only(t, v).Holds {
				if h.Reason == "CPULimitNeeded" {
					said = h.Message
				}
			}
			assert.Equal(t, c.want, said)
		})
	}
}

// An init container that requests more than all other containers keeps that much of the node reserved, so that the targets
// save less than they seem to.
func TestExplainNamesInitContainersThatAreNotSized(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	v := live(stored())
	v.Workload.Template.Spec.InitContainers = []corev1.Container{
		{Name: "small", Resources: podview.ToRequirements(size(100, 100, 128<<20, 128<<20))},
		{Name: "proxy", Resources: podview.ToRequirements(size(100, 0, 128<<20, 0)), RestartPolicy: &always},
		{Name: "migrate", Resources: podview.ToRequirements(size(2000, 2000, 1<<30, 1<<30))},
	}
	said := func() []string {
		answer, err := answers.Explain(v, nil, time.Time{})
		require.NoError(t, err)
		text, err := answer.Human(false)
		require.NoError(t, err)
		for _, sentence := range answer.Workload.InitContainers {
			assert.Contains(t, text, sentence+"\n")
		}
		return answer.Workload.InitContainers
	}
	const migrate = "Init container migrate ends before the other containers start, so attune does not size it. Nodes reserve its request as long as the pod runs: 2 of cpu (the containers with their targets: 300m). Lower it in the pod template."
	assert.Equal(t, []string{migrate}, said())

	v.Settings.Containers = map[string]*policy.ContainerSettings{"small": {}}
	assert.Equal(t, []string{"Init container small ends before the other containers start, so attune does not size it. Its entry in containerPolicies has no effect.", migrate}, said())

	for range 100 {
		v.Workload.Template.Spec.InitContainers = append(v.Workload.Template.Spec.InitContainers, v.Workload.Template.Spec.InitContainers[2])
	}
	assert.Len(t, said(), 8)
	v.Workload.Template = nil
	assert.Empty(t, said())
}
