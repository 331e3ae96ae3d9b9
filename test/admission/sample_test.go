package admission

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"attune.io/attune/test/apiserver"
	"attune.io/attune/test/cluster"
)

var samples = flag.Int("samples", 300, "how many changed pods, acceptable as they were posted, to show to a real API server")

// assetsVariable names a directory with etcd and kube-apiserver to use instead of the test cluster's own.
const assetsVariable = "ATTUNE_ASSETS"

// changed is a scene whose pod the webhook changes.
type changed struct {
	*scene
	namespace string
	judged    verdict // of the pod as it was
	after     *corev1.Pod
}

// TestSampleOnAnAPIServer: of the same scenes, those whose pod is changed, before an API server that runs.
// What it says of the pods as they were posted also shows that the judge of TestPods is no stranger to it.
func TestSampleOnAnAPIServer(t *testing.T) {
	sample := chooseSample(t, *samples)
	api := startAPIServer(t)
	guard := newSentinel(t, api)
	for _, c := range sample {
		c.furnish(t, api)
	}
	guard.await(t)
	accepted, refused := 0, 0
	for _, c := range sample {
		err := try(t, api, c.namespace, c.pod)
		assert.Equal(t, c.judged.admitted(), err == nil, "scene %d: the API server says %v, the judge in process %+v\n%s", c.number, err, c.judged, c.text())
		if err != nil {
			refused++
			continue
		}
		accepted++
		assert.NoError(t, try(t, api, c.namespace, c.after), "scene %d: the pod is taken as it was posted, and not as it was changed\n%s", c.number, c.text())
	}
	t.Logf("%d pods taken as they were posted, and as they were changed; %d others refused as they were posted", accepted, refused)
	assert.Equal(t, *samples, accepted)
	assert.Positive(t, refused)
}

// chooseSample goes on until enough pods are acceptable as they were posted; the others come along. It
// prefers namespaces with limit ranges or quotas, where more is tested.
func chooseSample(t *testing.T, size int) (out []*changed) {
	t.Helper()
	for n := *from; size > 0; n++ {
		s := newScene(n)
		if len(s.ranges)+len(s.quotas) == 0 && n%4 != 0 || ambiguous(s.ranges) {
			continue
		}
		shown := s.shownToWebhooks(s.pod)
		a, err := s.ask(s.handler(), shown)
		require.NoError(t, err)
		if len(a.patch) == 0 {
			continue
		}
		c := &changed{scene: s, namespace: fmt.Sprintf("scene-%d", n), judged: s.judge(shown), after: a.after}
		out = append(out, c)
		if c.judged.admitted() {
			size--
		}
	}
	return out
}

// ambiguous reports several limit ranges with defaults: which of them a pod gets, the API server leaves open.
func ambiguous(ranges []*corev1.LimitRange) bool {
	with := 0
	for _, lr := range ranges {
		if slices.ContainsFunc(lr.Spec.Limits, func(i corev1.LimitRangeItem) bool { return len(i.Default)+len(i.DefaultRequest) > 0 }) {
			with++
		}
	}
	return with > 1
}

func startAPIServer(t *testing.T) kubernetes.Interface {
	t.Helper()
	env := &envtest.Environment{} // which asks for no service accounts
	apiserver.Patient(env)
	require.NoError(t, findPrograms(env))
	config, err := env.Start()
	t.Cleanup(func() { assert.NoError(t, env.Stop()) })
	require.NoError(t, err)
	config = rest.CopyConfig(config)
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	api := kubernetes.NewForConfigOrDie(config)
	class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: runtimeClass}, Handler: "runc", Overhead: &nodev1.Overhead{PodFixed: overhead}}
	_, err = api.NodeV1().RuntimeClasses().Create(t.Context(), class, metav1.CreateOptions{})
	require.NoError(t, err)
	return api
}

func findPrograms(env *envtest.Environment) (err error) {
	if env.BinaryAssetsDirectory = os.Getenv(assetsVariable); env.BinaryAssetsDirectory != "" {
		return nil
	}
	tools, err := cluster.Build(context.Background(), cluster.Options{Progress: os.Stderr})
	if err != nil {
		return err
	}
	server, etcd := env.ControlPlane.GetAPIServer(), &envtest.Etcd{}
	if server.Path, err = tools.Find("kube-apiserver"); err != nil {
		return err
	}
	env.ControlPlane.Etcd = etcd
	if etcd.Path, err = tools.Find("etcd"); err != nil {
		return err
	}
	env.ControlPlane.KubectlPath, err = tools.Find("kubectl")
	return err
}

// furnish makes the scene's namespace.
func (c *changed) furnish(t *testing.T, api kubernetes.Interface) {
	t.Helper()
	makeNamespace(t, api, c.namespace)
	for _, lr := range c.ranges {
		makeRange(t, api, c.namespace, lr)
	}
	for _, q := range c.quotas {
		makeQuota(t, api, c.namespace, q)
	}
}

func makeNamespace(t *testing.T, api kubernetes.Interface, name string) {
	t.Helper()
	_, err := api.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(t, err)
}

func makeRange(t *testing.T, api kubernetes.Interface, ns string, lr *corev1.LimitRange) *corev1.LimitRange {
	t.Helper()
	lr = lr.DeepCopy()
	lr.Namespace = ns
	lr, err := api.CoreV1().LimitRanges(ns).Create(t.Context(), lr, metav1.CreateOptions{})
	require.NoError(t, err)
	return lr
}

// makeQuota also writes its status, which nobody else does here.
func makeQuota(t *testing.T, api kubernetes.Interface, ns string, q *corev1.ResourceQuota) *corev1.ResourceQuota {
	t.Helper()
	q = q.DeepCopy()
	q.Namespace = ns
	made, err := api.CoreV1().ResourceQuotas(ns).Create(t.Context(), q, metav1.CreateOptions{})
	require.NoError(t, err)
	made.Status = q.Status
	made, err = api.CoreV1().ResourceQuotas(ns).UpdateStatus(t.Context(), made, metav1.UpdateOptions{})
	require.NoError(t, err)
	return made
}

// try asks for a pod. Nothing is stored.
func try(t *testing.T, api kubernetes.Interface, ns string, pod *corev1.Pod) error {
	t.Helper()
	_, err := api.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}
