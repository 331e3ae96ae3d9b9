package plane

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/test/kubelet"
	"attune.io/attune/test/sim/api"
)

// lab is a cluster over an API server in memory.
type lab struct {
	testing.TB
	*Cluster
	server *api.Server
	now    time.Time
	// watched is called after each step.
	watched func()
}

// beginning is a Monday at noon.
var beginning = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

const namespace = "shop"

func newLab(t testing.TB, nodes int, options kubelet.Options) *lab {
	t.Helper()
	l := &lab{TB: t, now: beginning, watched: func() {}}
	l.server = api.New(api.Options{Scheme: scheme.Scheme, Now: func() time.Time { return l.now }, Minor: 36})
	l.Cluster = NewCluster(&Plane{Client: l.server.As("plane", nil)})
	l.Cluster.Version, l.Stored = l.server.Version, l.server.Stored
	l.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	for i := range nodes {
		l.join(fmt.Sprintf("node-%d", i), options)
	}
	return l
}

func (l *lab) join(name string, options kubelet.Options) {
	l.Helper()
	_, err := l.Join(l.Context(), name, options, l.now)
	require.NoError(l, err)
}

func (l *lab) create(o client.Object) {
	l.Helper()
	require.NoError(l, l.Client.Create(l.Context(), o))
}

// settle steps until nothing is written any more at this time.
func (l *lab) settle() {
	l.Helper()
	for range 200 {
		before := l.server.Version()
		require.NoError(l, l.Step(l.Context(), l.now))
		l.watched()
		if l.server.Version() == before {
			return
		}
	}
	require.Fail(l, "it is written for ever although no time passes")
}

// run lets time go by, from one thing that is due to the next.
func (l *lab) run(d time.Duration) {
	l.Helper()
	end := l.now.Add(d)
	for {
		l.settle()
		next := l.Next(l.now)
		if next.IsZero() || next.After(end) {
			break
		}
		require.True(l, next.After(l.now), "the next thing is due before now")
		l.now = next
	}
	l.now = end
	l.settle()
}

// edit changes an object.
func edit[O client.Object](l *lab, o O, change func(O)) {
	l.Helper()
	require.NoError(l, l.Client.Get(l.Context(), client.ObjectKeyFromObject(o), o))
	change(o)
	require.NoError(l, l.Client.Update(l.Context(), o))
}

func read[O client.Object](l *lab, o O) O {
	l.Helper()
	require.NoError(l, l.Client.Get(l.Context(), client.ObjectKeyFromObject(o), o))
	return o
}

// pods that begin with a name, by name.
func (l *lab) pods(prefix string) []corev1.Pod {
	l.Helper()
	list := &corev1.PodList{}
	require.NoError(l, l.Client.List(l.Context(), list, client.InNamespace(namespace)))
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return !strings.HasPrefix(p.Name, prefix) })
}

// replicaSets by revision, oldest first, as "revision: pods wanted/available".
func (l *lab) replicaSets() []appsv1.ReplicaSet {
	l.Helper()
	list := &appsv1.ReplicaSetList{}
	require.NoError(l, l.Client.List(l.Context(), list, client.InNamespace(namespace)))
	slices.SortFunc(list.Items, func(a, b appsv1.ReplicaSet) int { return int(revision(&a) - revision(&b)) })
	return list.Items
}

func labelled(app string) (*metav1.LabelSelector, map[string]string) {
	labels := map[string]string{"app": app}
	return &metav1.LabelSelector{MatchLabels: labels}, labels
}

func template(app, cpu, memory string) corev1.PodTemplateSpec {
	_, labels := labelled(app)
	amounts := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{
			Name: "app", Image: "example.org/app:1",
			Resources: corev1.ResourceRequirements{Requests: amounts, Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}},
		}},
	}}
}

func deployment(name string, replicas int32) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	d.Spec.Replicas, d.Spec.Template = &replicas, template(name, "100m", "128Mi")
	d.Spec.Selector, _ = labelled(name)
	return d
}

// image is what a new template changes.
func image(version string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "example.org/app:" + version }
}

func conditionOf(conditions []appsv1.DeploymentCondition, kind appsv1.DeploymentConditionType) string {
	for _, c := range conditions {
		if c.Type == kind {
			return fmt.Sprintf("%s %s", c.Status, c.Reason)
		}
	}
	return ""
}

func clientKey(o client.Object) client.ObjectKey { return client.ObjectKeyFromObject(o) }
