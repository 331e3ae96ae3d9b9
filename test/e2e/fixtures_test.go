package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/await"
	"attune.io/attune/test/cluster"
	"attune.io/attune/test/deploy"
)

// settle bounds every wait for a condition; a condition that holds sooner is seen sooner.
const settle = 6 * time.Minute

// roomComes bounds the wait for a pod to run: the nodes may be full of other tests' pods, which go.
const roomComes = 10 * time.Minute

// size is a container's requests and limits, written as cpu/memory.
type size struct{ cpu, memory, cpuLimit, memoryLimit string }

func (s size) requirements() corev1.ResourceRequirements {
	list := func(cpu, memory string) corev1.ResourceList {
		out := corev1.ResourceList{}
		if cpu != "" {
			out[corev1.ResourceCPU] = resource.MustParse(cpu)
		}
		if memory != "" {
			out[corev1.ResourceMemory] = resource.MustParse(memory)
		}
		return out
	}
	return corev1.ResourceRequirements{Requests: list(s.cpu, s.memory), Limits: list(s.cpuLimit, s.memoryLimit)}
}

func sizeOf(r corev1.ResourceRequirements) size {
	text := func(list corev1.ResourceList, name corev1.ResourceName) string {
		if q, ok := list[name]; ok {
			return q.String()
		}
		return ""
	}
	return size{
		cpu: text(r.Requests, corev1.ResourceCPU), memory: text(r.Requests, corev1.ResourceMemory),
		cpuLimit: text(r.Limits, corev1.ResourceCPU), memoryLimit: text(r.Limits, corev1.ResourceMemory),
	}
}

// namespace makes one; labelled ones have their new pods sized.
func namespace(ctx context.Context, t *testing.T, name string, labelled bool) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if labelled {
		ns.Labels = map[string]string{v1alpha1.InjectLabel: v1alpha1.InjectEnabled}
	}
	require.NoError(t, env.client.Create(ctx, ns))
	t.Cleanup(func() {
		if t.Failed() {
			dump(t, name)
		}
	})
	eventually(t, "the namespace's service account", func() error {
		return env.client.Get(ctx, client.ObjectKey{Namespace: name, Name: "default"}, &corev1.ServiceAccount{})
	})
}

// app is a container that uses little, whatever its history says.
func app(name string, s size, env ...corev1.EnvVar) corev1.Container {
	return corev1.Container{
		Name: name, Image: cluster.WorkloadImage, ImagePullPolicy: corev1.PullNever, Resources: s.requirements(),
		Env: append([]corev1.EnvVar{{Name: "CPU_MILLICORES", Value: "5"}, {Name: "MEMORY_MIB", Value: "10"}}, env...),
		ReadinessProbe: &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(8080)}},
			PeriodSeconds: 1, TimeoutSeconds: 5,
		},
	}
}

// deployment makes one and waits until its pods are ready. They go when the test is over: others need the room.
func deployment(ctx context.Context, t *testing.T, ns, name string, replicas int32, containers ...corev1.Container) *appsv1.Deployment {
	t.Helper()
	d := newDeployment(ns, name, replicas, containers...)
	createFor(t, d)
	ready(ctx, t, d)
	return d
}

func newDeployment(ns, name string, replicas int32, containers ...corev1.Container) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(replicas),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: containers, TerminationGracePeriodSeconds: ptr.To(int64(1))},
			},
		},
	}
}

func ready(ctx context.Context, t *testing.T, d *appsv1.Deployment) {
	t.Helper()
	within(t, roomComes, "pods of "+d.Name+" ready", func() error { return allReady(ctx, d) })
}

func allReady(ctx context.Context, d *appsv1.Deployment) error {
	if err := env.client.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
		return err
	}
	if d.Status.ObservedGeneration < d.Generation || d.Status.ReadyReplicas != *d.Spec.Replicas {
		return fmt.Errorf("%d of %d are", d.Status.ReadyReplicas, *d.Spec.Replicas)
	}
	return nil
}

// pods are a workload's live ones, by name.
func pods(ctx context.Context, t *testing.T, d *appsv1.Deployment) []corev1.Pod {
	t.Helper()
	list := &corev1.PodList{}
	require.NoError(t, env.client.List(ctx, list, client.InNamespace(d.Namespace), client.MatchingLabels(d.Spec.Selector.MatchLabels)))
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
}

// policyFor makes a policy for one Deployment, with the settings of decidingFast.
func policyFor(ctx context.Context, t *testing.T, d *appsv1.Deployment, mode v1alpha1.UpdateType, change func(*v1alpha1.AttunePolicySpec)) *v1alpha1.AttunePolicy {
	t.Helper()
	p := &v1alpha1.AttunePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name},
		Spec: v1alpha1.AttunePolicySpec{
			TargetRef:      v1alpha1.TargetRef{Kind: v1alpha1.KindDeployment, Name: d.Name},
			PolicySettings: decidingFast(mode),
		},
	}
	if change != nil {
		change(&p.Spec)
	}
	require.NoError(t, env.client.Create(ctx, p))
	return p
}

// decidingFast are the settings of policies: a history of one day, and a minute between changes.
func decidingFast(mode v1alpha1.UpdateType) v1alpha1.PolicySettings {
	return v1alpha1.PolicySettings{
		// A short rate window: a watch lasts at least as long, since throttling is judged over it.
		MetricsSource: &v1alpha1.MetricsSource{HistoryWindow: duration(24 * time.Hour), RateWindow: duration(time.Minute)},
		CPU: &v1alpha1.CPUSettings{ResourceSettings: v1alpha1.ResourceSettings{
			MaxChangePercent: ptr.To(int32(1000)), MaxAllowed: ptr.To(resource.MustParse(wanted.cpu)),
		}},
		Memory: &v1alpha1.MemorySettings{
			ResourceSettings: v1alpha1.ResourceSettings{
				MaxChangePercent: ptr.To(int32(1000)), MaxAllowed: ptr.To(resource.MustParse(wanted.memory)),
			},
			AllowDecrease: ptr.To(true),
		},
		UpdateStrategy: &v1alpha1.UpdateStrategy{
			Type:                    ptr.To(mode),
			Cooldown:                duration(time.Minute),
			SafetyObservationPeriod: duration(time.Minute),
		},
	}
}

// recommendation is the one of a Deployment.
func recommendation(ctx context.Context, d *appsv1.Deployment) (*v1alpha1.AttuneRecommendation, error) {
	rec := &v1alpha1.AttuneRecommendation{}
	return rec, env.client.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: "deployment-" + d.Name}, rec)
}

// eventually waits for a condition; the error says how far it has come.
func eventually(t *testing.T, what string, condition func() error) {
	t.Helper()
	within(t, settle, what, condition)
}

// within checks a condition two or three times a second: four times as often, the API servers spent a third of their time on
// the answers.
func within(t *testing.T, limit time.Duration, what string, condition func() error) {
	t.Helper()
	err := await.Until(context.WithoutCancel(t.Context()), what, limit, 400*time.Millisecond, func(context.Context) error { return condition() })
	require.NoError(t, err)
}

func duration(d time.Duration) *v1alpha1.Duration {
	return &v1alpha1.Duration{Duration: metav1.Duration{Duration: d}}
}

// dump shows what attune knows of a namespace, for a test that failed.
func dump(t *testing.T, namespace string) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for _, args := range [][]string{
		{"get", "attunerecommendations,attunepolicies", "-n", namespace, "-o", "yaml"},
		{"get", "pods", "-n", namespace, "-o", "wide"},
		{"get", "events", "-n", namespace},
		{"logs", "-n", deploy.Namespace, "-l", "app.kubernetes.io/name=attune", "--tail=60", "--prefix"},
	} {
		out, err := env.cluster.Command(ctx, "kubectl", args...).CombinedOutput()
		t.Logf("kubectl %v (%v):\n%s", args, err, out)
	}
	if only() != "" { // nobody else needs the operator
		measurements(t, namespace)
		stacks(t)
	}
}

// measurements shows what the kubelets say of a namespace's containers, time after time, and what the operator counts:
// who of them has nothing new to say is seen by that.
func measurements(t *testing.T, namespace string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	raw := func(path, containing string) {
		out, err := env.cluster.Command(ctx, "kubectl", "get", "--raw", path).CombinedOutput()
		lines := slices.DeleteFunc(strings.Split(string(out), "\n"), func(line string) bool { return !strings.Contains(line, containing) })
		t.Logf("%s at %s (%v):\n%s", path, time.Now().UTC().Format(time.StampMilli), err, strings.Join(lines, "\n"))
	}
	nodes, pods := &corev1.NodeList{}, &corev1.PodList{}
	if err := errors.Join(env.client.List(ctx, nodes),
		env.client.List(ctx, pods, client.InNamespace(deploy.Namespace), client.MatchingLabels{"app.kubernetes.io/name": "attune"})); err != nil {
		t.Log(err)
		return
	}
	if err := mayScrape(ctx, "e2e-scraper"); err != nil {
		t.Log(err)
	}
	for range 3 {
		for _, node := range nodes.Items {
			raw("/api/v1/nodes/"+node.Name+"/proxy/metrics/resource", fmt.Sprintf("namespace=%q", namespace))
		}
		for _, pod := range pods.Items {
			status, text, err := metricsOf(ctx, &pod, "e2e-scraper")
			lines := slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return !strings.HasPrefix(line, "attune_") })
			t.Logf("the metrics of pod %s (%d, %v):\n%s", pod.Name, status, err, strings.Join(lines, "\n"))
		}
		time.Sleep(10 * time.Second) // kubelets measure that often
	}
}

// stacks shows what each goroutine of the operator's replicas does. The replicas end by it.
func stacks(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	list := &corev1.PodList{}
	if err := env.client.List(ctx, list, client.InNamespace(deploy.Namespace), client.MatchingLabels{"app.kubernetes.io/name": "attune"}); err != nil {
		t.Log(err)
		return
	}
	for i := range list.Items {
		pod := &list.Items[i]
		processes, err := env.cluster.ReadCgroup(pod, "attune", "memory", "cgroup.procs")
		process, wrong := strconv.Atoi(strings.TrimSpace(processes))
		if err = errors.Join(err, wrong); err == nil {
			err = syscall.Kill(process, syscall.SIGQUIT)
		}
		if err != nil {
			t.Logf("the stacks of pod %s: %v", pod.Name, err)
			continue
		}
		var out []byte
		for ctx.Err() == nil && !bytes.Contains(out, []byte("goroutine 1 ")) {
			time.Sleep(time.Second)
			// The one before or, until the kubelet has seen its end, this one.
			for _, which := range []string{"--previous=true", "--previous=false"} {
				if out, err = env.cluster.Command(ctx, "kubectl", "logs", "-n", pod.Namespace, pod.Name, which, "--tail=20000").CombinedOutput(); bytes.Contains(out, []byte("goroutine 1 ")) {
					break
				}
			}
		}
		if at := bytes.Index(out, []byte("SIGQUIT")); at >= 0 {
			out = out[at:]
		}
		t.Logf("the stacks of pod %s (process %d, %v):\n%s", pod.Name, process, err, out)
	}
}
