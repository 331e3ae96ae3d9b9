package trim_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/clip"
	"attune.io/attune/internal/trim"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
)

func trimmed[T any](t testing.TB, transform cache.TransformFunc, o T) T {
	t.Helper()
	out, err := transform(o)
	require.NoError(t, err)
	return out.(T)
}

func TestTrimmedPod(t *testing.T) {
	pod := runningPod(7)
	pod.Spec.Affinity = &corev1.Affinity{
		PodAntiAffinity: &corev1.PodAntiAffinity{},
		NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution:  &corev1.NodeSelector{},
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1}},
		},
	}
	whole := pod.DeepCopy()
	left := trimmed(t, trim.Object, pod)
	for i, c := range left.Spec.Containers {
		was := whole.Spec.Containers[i]
		assert.Equal(t, corev1.Container{
			Name: was.Name, Image: was.Image, Args: was.Args, Resources: was.Resources, VolumeMounts: c.VolumeMounts,
		}, c)
	}
	assert.Equal(t, []corev1.VolumeMount{{Name: "shm"}}, left.Spec.Containers[0].VolumeMounts, "it takes memory")
	assert.Empty(t, left.Spec.Containers[1].VolumeMounts)
	require.Len(t, left.Spec.Volumes, 1)
	assert.Equal(t, whole.Labels, left.Labels)
	assert.Equal(t, whole.OwnerReferences, left.OwnerReferences)
	assert.Equal(t, map[string]string{"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "attune.io/seeded": whole.Annotations["attune.io/seeded"]},
		left.Annotations, "flags and what is ours, no documents")
	assert.Equal(t, whole.Spec.Tolerations, left.Spec.Tolerations)
	assert.Equal(t, &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{}}}, left.Spec.Affinity)
	assert.Equal(t, whole.UID, left.UID)
	assert.Equal(t, whole.Status.ContainerStatuses[2].Resources, left.Status.ContainerStatuses[2].Resources)
	again := left.DeepCopy()
	assert.Equal(t, again, trimmed(t, trim.Object, left), "trimming twice is trimming once")
}

// The exit code tells an OOM kill of the main process from one of a child: without it, no kill would ever be answered.
func TestTrimmedPodsKeepWhatTellsAKill(t *testing.T) {
	for _, code := range []int32{0, 1, 137, 143} {
		for _, reason := range []string{podview.OOMKilled, "Error"} {
			pod := runningPod(7)
			end := &corev1.ContainerStateTerminated{
				Reason: reason, ExitCode: code, ContainerID: "containerd://app-0", Message: "heap", StartedAt: metav1.Unix(1e9, 0), FinishedAt: metav1.Unix(1e9+60, 0),
			}
			pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: end}
			pod.Status.ContainerStatuses[1].LastTerminationState.Terminated = end.DeepCopy()
			killed := podview.OOMKills(pod)
			assert.Len(t, killed, map[bool]int{true: 2}[reason == podview.OOMKilled && code != 0 && code != 143], "%s %d", reason, code)
			want := end.DeepCopy()
			want.Message = ""
			left := trimmed(t, trim.Object, pod)
			assert.Equal(t, killed, podview.OOMKills(left), "%s %d", reason, code)
			assert.Equal(t, want, left.Status.ContainerStatuses[0].State.Terminated)
			assert.Equal(t, want, left.Status.ContainerStatuses[1].LastTerminationState.Terminated)
		}
	}
}

// Lists of amounts are shared, but a change of a copy does not affect other objects.
func TestChangedCopyDoesNotAffectSharedAmounts(t *testing.T) {
	a, b := trimmed(t, trim.Object, runningPod(1)), trimmed(t, trim.Object, runningPod(2))
	copied := a.DeepCopy()
	copied.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("7")
	copied.Labels["app"] = "other"
	assert.Equal(t, "500m", b.Spec.Containers[0].Resources.Requests.Cpu().String())
	assert.Equal(t, "500m", a.Spec.Containers[0].Resources.Requests.Cpu().String())
	assert.Equal(t, "web", b.Labels["app"])
}

// Users choose annotation values. No value may make one object's annotations look like those of another object.
func TestDifferentAnnotationsAreNeverShared(t *testing.T) {
	a, b := runningPod(1), runningPod(2)
	apart := map[string]string{"attune.io/paused": "x", "attune.io/skip": "y"}
	asOne := map[string]string{"attune.io/paused": "x14:attune.io/skip1:y"}
	a.Annotations, b.Annotations = maps.Clone(asOne), maps.Clone(apart)
	assert.Equal(t, asOne, trimmed(t, trim.Object, a).Annotations)
	assert.Equal(t, apart, trimmed(t, trim.Object, b).Annotations)
}

// With any strings in an object, its kept part is small and still distinguishes different commands.
func TestKeptPartOfAnyObjectIsBounded(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	fill := func(o *metav1.ObjectMeta, spec *corev1.PodSpec, arg string) {
		o.Annotations = map[string]string{
			"attune.io/x": long[:256<<10], "attune.io/seeded": long[:256<<10], "attune.io/paused": long[:256<<10],
			"karpenter.sh/do-not-disrupt": long[:256<<10], "note": "short, and read by nobody",
		}
		for i := range spec.Containers {
			spec.Containers[i].Args, spec.Containers[i].Command, spec.Containers[i].Image = []string{arg}, []string{"sh", long}, long[:4096]
		}
	}
	pod, other := runningPod(1), runningPod(1)
	fill(&pod.ObjectMeta, &pod.Spec, long)
	fill(&other.ObjectMeta, &other.Spec, long+"y")
	template := corev1.PodTemplateSpec{Spec: *runningPod(1).Spec.DeepCopy()}
	fill(&template.ObjectMeta, &template.Spec, long)
	d := &appsv1.Deployment{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: appsv1.DeploymentSpec{Template: template}}
	live := pod.DeepCopy()
	live.Labels = nil

	podBefore, deploymentBefore := jsonBytes(t, pod), jsonBytes(t, d)
	pod, other, d = trimmed(t, trim.Object, pod), trimmed(t, trim.Object, other), trimmed(t, trim.Object, d)
	t.Logf("a pod: %d bytes of JSON before, %d after; a Deployment: %d before, %d after", podBefore, jsonBytes(t, pod), deploymentBefore, jsonBytes(t, d))
	assert.Less(t, jsonBytes(t, pod), 8<<10)
	assert.Less(t, jsonBytes(t, d), 8<<10)
	for _, left := range []map[string]string{pod.Annotations, d.Annotations, d.Spec.Template.Annotations} {
		assert.Equal(t, map[string]string{"attune.io/paused": long[:64], "karpenter.sh/do-not-disrupt": long[:64]}, left)
	}
	assert.True(t, podview.SameProgram(pod, &d.Spec.Template.Spec))
	assert.True(t, podview.SameProgram(live, &d.Spec.Template.Spec), "one that was read from the API server as well")
	assert.False(t, podview.SameProgram(other, &d.Spec.Template.Spec))
	pod.Labels = nil
	assert.Equal(t, podview.TemplateHash(live), podview.TemplateHash(pod))
}

func jsonBytes(t *testing.T, o any) int {
	t.Helper()
	text, err := json.Marshal(o)
	require.NoError(t, err)
	return len(text)
}

func TestTrimmedWorkloads(t *testing.T) {
	template := corev1.PodTemplateSpec{Spec: *runningPod(1).Spec.DeepCopy()}
	template.Spec.Volumes = []corev1.Volume{{Name: "config"}, {Name: "shm", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}}}
	template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "config"}, {Name: "shm"}}
	template.Spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")}
	template.Spec.Resources = &corev1.ResourceRequirements{Requests: template.Spec.Overhead.DeepCopy()}
	template.Spec.OS = &corev1.PodOS{Name: corev1.Linux}
	template.Spec.NodeSelector = map[string]string{corev1.LabelOSStable: "linux", "pool": "a"}
	required := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}}}}}
	template.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}, NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution:  required,
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1}},
	}}
	template.Spec.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
	template.Annotations = map[string]string{"attune.io/skip": "true", "checksum/config": strings.Repeat("a", 65)}
	meta := metav1.ObjectMeta{
		Name: "web", Namespace: "shop", UID: "u", Generation: 3, Labels: map[string]string{"app": "web"},
		Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: strings.Repeat("x", 500), "attune.io/paused": "true"},
	}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	deployment := &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: ptr.To(int32(4)), Template: template, Selector: selector}}
	deployment.Status = appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 4, UpdatedReplicas: 2, Conditions: []appsv1.DeploymentCondition{{}, {Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Unix(1, 0)}}}
	cronJob := &batchv1.CronJob{ObjectMeta: meta}
	cronJob.Spec.JobTemplate.Spec = batchv1.JobSpec{Parallelism: ptr.To(int32(2)), Template: template}
	for name, object := range map[string]workload.Object{
		"Deployment":  deployment,
		"StatefulSet": &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Template: template, Selector: selector}, Status: appsv1.StatefulSetStatus{UpdateRevision: "b", CurrentRevision: "a", Replicas: 2}},
		"DaemonSet":   &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Template: template}, Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 5}},
		"ReplicaSet":  &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Template: template, Selector: selector}},
		"Job":         &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: template}},
		"CronJob":     cronJob,
	} {
		whole, ok := workload.From(object.DeepCopyObject())
		require.True(t, ok, name)
		left, ok := workload.From(trimmed(t, trim.Object, object))
		require.True(t, ok, name)
		assert.Equal(t, map[string]string{"attune.io/paused": "true"}, left.Annotations, name)
		assert.Equal(t, whole.Selector, left.Selector, name)
		assert.Equal(t, map[string]string{"attune.io/skip": "true"}, left.Template.Annotations, name)
		require.Len(t, left.Template.Spec.Containers, 3, name)
		for i, c := range left.Template.Spec.Containers {
			assert.Equal(t, whole.Template.Spec.Containers[i].Resources, c.Resources, name)
			assert.Empty(t, c.Env, name)
		}
		// The webhook reads these fields of a pod, and the bridge predicts its decision from the template.
		require.Len(t, left.Template.Spec.Volumes, 1, name)
		assert.Equal(t, corev1.StorageMediumMemory, left.Template.Spec.Volumes[0].EmptyDir.Medium, name)
		assert.Equal(t, []corev1.VolumeMount{{Name: "shm"}}, left.Template.Spec.Containers[0].VolumeMounts, name)
		assert.Equal(t, template.Spec.Overhead, left.Template.Spec.Overhead, name)
		assert.Equal(t, template.Spec.Resources, left.Template.Spec.Resources, name)
		assert.Equal(t, template.Spec.OS, left.Template.Spec.OS, name)
		// The largest node of a workload depends on the nodes on which its pods may run.
		assert.Equal(t, template.Spec.NodeSelector, left.Template.Spec.NodeSelector, name)
		assert.Equal(t, template.Spec.Tolerations, left.Template.Spec.Tolerations, name)
		assert.Equal(t, &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}, left.Template.Spec.Affinity, name)
		left.Annotations, left.Template = whole.Annotations, whole.Template
		assert.Equal(t, whole, left, name)
	}
}

// Messages about pods that cannot be created or started are kept, shortened.
func TestMessagesOfPodsThatDoNotStartAreKept(t *testing.T) {
	d := &appsv1.Deployment{}
	d.Status.Conditions = []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Message: "x"},
		{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: strings.Repeat("x", 4000)},
	}
	trimmed, err := trim.Object(d)
	require.NoError(t, err)
	left := trimmed.(*appsv1.Deployment).Status.Conditions
	require.Len(t, left, 1)
	assert.Equal(t, appsv1.DeploymentReplicaFailure, left[0].Type)
	assert.Len(t, left[0].Message, 1024)

	e := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "e", Labels: map[string]string{"a": "b"}}, Reason: "FailedCreate", Message: strings.Repeat("x", 4000), Action: "x",
		InvolvedObject: corev1.ObjectReference{Kind: "Job", Name: "web", FieldPath: "x"}, Source: corev1.EventSource{Component: "x"},
	}
	trimmed, err = trim.Object(e)
	require.NoError(t, err)
	assert.Equal(t, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "e"}, Reason: "FailedCreate", Message: strings.Repeat("x", 1024), InvolvedObject: corev1.ObjectReference{Kind: "Job", Name: "web"},
	}, trimmed)

	pod := &corev1.Pod{}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{
		{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CreateContainerError", Message: strings.Repeat("x", 4000)}}},
		{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "x"}}},
	}
	trimmed, err = trim.Object(pod)
	require.NoError(t, err)
	statuses := trimmed.(*corev1.Pod).Status.ContainerStatuses
	assert.Len(t, statuses[0].State.Waiting.Message, 1024)
	assert.Empty(t, statuses[1].State.Waiting.Message)
}

func TestTrimmedRecommendation(t *testing.T) {
	rec := &v1alpha1.AttuneRecommendation{ObjectMeta: metav1.ObjectMeta{Name: "deployment-web", ManagedFields: []metav1.ManagedFieldsEntry{{}}}}
	widened := v1alpha1.Step{Resource: "memory", Name: "burst", Before: "100", After: "110", Reason: "peak 400 is 4 × p95 100"}
	rec.Spec.Containers = []v1alpha1.ContainerTarget{{Name: "app", Confidence: "1.00", DataPoints: 2016, Steps: []v1alpha1.Step{
		{Resource: "cpu", Name: "percentile", Before: "0", After: "100m"}, {Resource: "cpu", Name: "burst", Before: "100m", After: "100m"},
		{Resource: "memory", Name: "percentile", Before: "0", After: "100"}, widened,
	}}}
	rec.Spec.Checkpoints, rec.Status.Phase = []v1alpha1.Checkpoint{{Name: "app", Data: []byte("past")}}, v1alpha1.PhaseIdle
	want := rec.DeepCopy()
	want.ManagedFields, want.Spec.Containers[0].Steps = nil, []v1alpha1.Step{widened}
	assert.Equal(t, want, trimmed(t, trim.Object, rec))
}

func TestPartKeepsOnlyItsOwners(t *testing.T) {
	owned := func(kind, version string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: "web-1", Namespace: "shop", Labels: map[string]string{"app": "web"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: "web", Controller: ptr.To(true)}}}
	}
	rs := &appsv1.ReplicaSet{ObjectMeta: owned("Deployment", "apps/v1"), Spec: appsv1.ReplicaSetSpec{Template: corev1.PodTemplateSpec{Spec: runningPod(1).Spec}}}
	job := &batchv1.Job{ObjectMeta: owned("CronJob", "batch/v1"), Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: runningPod(1).Spec}}}
	for _, object := range []workload.Object{rs, job} {
		left, ok := workload.From(trimmed(t, trim.Object, object))
		require.True(t, ok)
		assert.True(t, left.Part())
		assert.Equal(t, "web", left.OwnedBy.Name)
		assert.Empty(t, left.Template.Spec.Containers)
		assert.Empty(t, left.Labels)
	}
}

func TestTrimmedNode(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"zone": "a"}, Annotations: map[string]string{"a": "b"}}}
	node.Spec.Taints = []corev1.Taint{{Key: "k"}}
	node.Status = corev1.NodeStatus{Allocatable: corev1.ResourceList{"cpu": resource.MustParse("4")}, Images: []corev1.ContainerImage{{}}, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady}}}
	want := node.DeepCopy()
	want.Annotations, want.Status.Images = nil, nil
	assert.Equal(t, want, trimmed(t, trim.Object, node))
}

func TestTrimmedBudget(t *testing.T) {
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{
		Name: "b", Generation: 2, Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"a": "b"},
		ManagedFields: []metav1.ManagedFieldsEntry{{}}, OwnerReferences: []metav1.OwnerReference{{}},
	}}
	budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	budget.Status = policyv1.PodDisruptionBudgetStatus{
		ObservedGeneration: 2, DisruptionsAllowed: 1, CurrentHealthy: 3, DesiredHealthy: 2,
		DisruptedPods: map[string]metav1.Time{"web-1": {}}, Conditions: []metav1.Condition{{}},
	}
	want := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "b", Generation: 2}, Spec: budget.Spec, Status: budget.Status}
	want.Status.DisruptedPods, want.Status.Conditions = nil, nil
	assert.Equal(t, want, trimmed(t, trim.Object, budget))
}

func TestOtherObjectsPass(t *testing.T) {
	gone := cache.DeletedFinalStateUnknown{Key: "shop/web"}
	assert.Equal(t, gone, trimmed(t, trim.Object, gone))
	limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "l", ManagedFields: []metav1.ManagedFieldsEntry{{}}}}
	assert.Equal(t, &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "l"}}, trimmed(t, trim.Object, limits))
}

// runningPod is one of many replicas, with three containers, as large as in production.
func runningPod(n int) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("web-7c9d8b6f5-%05d", n), GenerateName: "web-7c9d8b6f5-", Namespace: "shop", UID: "705ab4f5-6393-11e8-b7cc-42010a800002", Generation: 1,
			Labels: map[string]string{"app": "web", "pod-template-hash": "7c9d8b6f5", "team": "shop", "version": "v17", "app.kubernetes.io/part-of": "shop"},
			Annotations: map[string]string{
				"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "checksum/config": strings.Repeat("7", 65),
				"attune.io/seeded": `{"recommendation":"deployment-web","revision":"abcdef","original":[{"name":"app","cpuRequest":"1"}]}`,
			},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-7c9d8b6f5", UID: "rs-uid", Controller: ptr.To(true)}},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(`{"f:status":{}}`)}},
		},
		Spec: corev1.PodSpec{
			NodeName: fmt.Sprint("node-", n%50), ServiceAccountName: "web", SchedulerName: "default-scheduler", RestartPolicy: corev1.RestartPolicyAlways,
			Volumes: []corev1.Volume{
				{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}},
				{Name: "kube-api-access-x", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: make([]corev1.VolumeProjection, 3)}}},
				{Name: "shm", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
			},
			Tolerations: []corev1.Toleration{
				{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To(int64(300))},
				{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To(int64(300))},
			},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, QOSClass: corev1.PodQOSBurstable, ObservedGeneration: 1, HostIP: "10.0.0.1", PodIP: fmt.Sprint("10.1.0.", n)},
	}
	for _, kind := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue})
	}
	for i, name := range []string{"app", "cache", "mesh"} {
		pod.Spec.Containers = append(pod.Spec.Containers, bulky(name))
		if i == 0 {
			pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "shm", MountPath: "/dev/shm"})
		}
		resources := pod.Spec.Containers[i].Resources.DeepCopy()
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: name, Image: "example.org/" + name + ":1", ImageID: "example.org/" + name + "@sha256:" + strings.Repeat("0", 64),
			ContainerID: "containerd://" + strings.Repeat("f", 64), Ready: true, Started: ptr.To(true),
			State:              corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			AllocatedResources: resources.Requests.DeepCopy(), Resources: resources,
		})
	}
	return pod
}

func bulky(name string) corev1.Container {
	probe := corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz"}}
	c := corev1.Container{
		Name: name, Image: "example.org/" + name + ":1", Args: []string{"--serve", "--port=8080"},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("1Gi")},
			Limits:   corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("2Gi")},
		},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "config", MountPath: "/etc/web"}, {Name: "kube-api-access-x", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true},
		},
		LivenessProbe: &corev1.Probe{ProbeHandler: probe}, ReadinessProbe: &corev1.Probe{ProbeHandler: probe},
		Ports:                  []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
		TerminationMessagePath: "/dev/termination-log", ImagePullPolicy: corev1.PullIfNotPresent,
	}
	for i := range 10 {
		c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", i), Value: "a value of middling length"})
	}
	return c
}

// BenchmarkCachedPod measures the heap of a cached pod, whole and trimmed. Each pod is decoded separately, as in an
// informer.
func BenchmarkCachedPod(b *testing.B) {
	const pods = 2000
	for name, transform := range map[string]cache.TransformFunc{"whole": func(o any) (any, error) { return o, nil }, "trimmed": trim.Object} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				before := heap()
				var all []any
				for i := range pods {
					raw, err := runningPod(i).Marshal()
					require.NoError(b, err)
					pod := &corev1.Pod{}
					require.NoError(b, pod.Unmarshal(raw))
					all = append(all, trimmed[any](b, transform, pod))
				}
				b.ReportMetric(float64(heap()-before)/pods, "bytes/pod")
				runtime.KeepAlive(all)
			}
		})
	}
}

func BenchmarkTrimPod(b *testing.B) {
	raw, err := json.Marshal(runningPod(1))
	require.NoError(b, err)
	pod := &corev1.Pod{}
	require.NoError(b, json.Unmarshal(raw, pod))
	b.ReportAllocs()
	for b.Loop() {
		trimmed[any](b, trim.Object, pod)
	}
}

func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// Users write a Rollout's message: the memory of the dropped part is freed.
func TestLongMessagesAreFreed(t *testing.T) {
	const rollouts, long = 20, 1 << 20
	raw := []byte(`{"status":{"message":"` + strings.Repeat("m", long) + `"}}`)
	before := heap()
	var all []any
	for range rollouts {
		rollout := &workload.ArgoRollout{}
		require.NoError(t, json.Unmarshal(raw, rollout))
		all = append(all, trimmed[any](t, trim.Object, rollout))
	}
	assert.Less(t, heap()-before, int64(rollouts*long/4))
	runtime.KeepAlive(all)
	runtime.KeepAlive(raw)
}

// Cluster policies select namespaces by labels. If these are too large, only the label that decides about seeds is
// kept.
func TestLabelsOfNamespaces(t *testing.T) {
	namespace := func(labels map[string]string) map[string]string {
		of := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: labels, Annotations: map[string]string{"a": "b"}}}
		trimmed, err := trim.Object(of)
		require.NoError(t, err)
		assert.Empty(t, trimmed.(*metav1.PartialObjectMetadata).Annotations)
		return trimmed.(*metav1.PartialObjectMetadata).Labels
	}
	few := map[string]string{v1alpha1.InjectLabel: "enabled", "stage": "production"}
	assert.Equal(t, few, namespace(maps.Clone(few)))
	assert.Nil(t, namespace(nil))
	many := maps.Clone(few)
	for i := range 500 {
		many[fmt.Sprintf("label-%d", i)] = strings.Repeat("x", 63)
	}
	assert.Equal(t, map[string]string{v1alpha1.InjectLabel: "enabled", clip.LabelsLeftOut: ""}, namespace(maps.Clone(many)))
	delete(many, v1alpha1.InjectLabel)
	assert.Equal(t, map[string]string{clip.LabelsLeftOut: ""}, namespace(many))
}
