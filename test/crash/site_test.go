package crash

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/resize"
	"attune.io/attune/test/apiserver"
	"attune.io/attune/test/await"
	"attune.io/attune/test/fault"
	"attune.io/attune/test/kubelet"
	"attune.io/attune/test/plane"
)

func init() { ctrl.SetLogger(logr.Discard()) }

// site is an API server with nodes that are played as time goes by, and an operator on the other end of a
// link.
type site struct {
	t        *testing.T
	env      *envtest.Environment
	client   client.Client
	link     *fault.Link
	history  *history
	operator *operator

	// mutex keeps the nodes to one at a time.
	mutex sync.Mutex
	nodes []*kubelet.Node
	plane *plane.Plane
	// grows holds the pods that come to hold more, and when.
	grows map[string]time.Time
	// deaf: nobody can reach the API server, which is as it should be.
	deaf bool
}

// newSite has pods from a while ago; the operator is not started yet.
func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, grows: map[string]time.Time{}}
	var err error
	s.env, err = apiserver.New()
	require.NoError(t, err)
	// Its certificates outlive it, so that it can be stopped and started.
	s.env.ControlPlane.GetAPIServer().CertDir = t.TempDir()
	config, err := s.env.Start()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.env.Stop()) })
	config.QPS = -1
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	s.client, err = client.New(config, client.Options{Scheme: scheme})
	require.NoError(t, err)

	transport, err := rest.TransportFor(config)
	require.NoError(t, err)
	s.link = fault.NewLink(transport)
	target, err := url.Parse(config.Host)
	require.NoError(t, err)
	proxy := httptest.NewServer(fault.Proxy(s.link, target))
	t.Cleanup(func() {
		proxy.CloseClientConnections()
		proxy.Close()
	})
	var usage string
	s.history, usage = newHistory(t)
	s.operator = newOperator(t, proxy.URL, usage)
	s.plane = &plane.Plane{
		Client: s.client, Namespaces: []string{"default"},
		Without: plane.AllBut(plane.Lifecycle, plane.Deployments, plane.ReplicaSets, plane.Stateful, plane.Scheduler),
	}
	s.seedsPods()
	return s
}

// seedsPods has new pods of the namespace sized, as far as the operator knows: no webhook is configured.
func (s *site) seedsPods() {
	s.t.Helper()
	ns := &corev1.Namespace{}
	require.NoError(s.t, s.client.Get(s.t.Context(), client.ObjectKey{Name: "default"}, ns))
	before := ns.DeepCopy()
	metav1.SetMetaDataLabel(&ns.ObjectMeta, v1alpha1.InjectLabel, v1alpha1.InjectEnabled)
	require.NoError(s.t, s.client.Patch(s.t.Context(), ns, client.MergeFrom(before)))
}

// node adds one.
func (s *site) node(name string, options kubelet.Options) *kubelet.Node {
	s.t.Helper()
	options.Usage = s.holds
	node, err := kubelet.NewNode(s.t.Context(), s.client, name, options)
	require.NoError(s.t, err)
	s.nodes = append(s.nodes, node)
	return node
}

// holds is the memory of a container: 200 MiB, until it grows.
func (s *site) holds(pod *corev1.Pod, _ string) int64 {
	if at, grows := s.grows[pod.Name]; grows && !time.Now().Before(at) {
		return 600 << 20
	}
	return 200 << 20
}

// sync has the control plane and the nodes look once.
func (s *site) sync(now time.Time) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	ctx := context.WithoutCancel(s.t.Context())
	if err := s.plane.Sync(ctx, now); err != nil {
		return err
	}
	for _, node := range s.nodes {
		if err := node.Sync(ctx, now); err != nil {
			return err
		}
	}
	return s.grow(ctx, now)
}

// grow: a process of a workload that is to suffer comes to hold more some seconds after its limit was lowered.
func (s *site) grow(ctx context.Context, now time.Time) error {
	pods := &corev1.PodList{}
	if err := s.client.List(ctx, pods, client.MatchingLabels{"suffers": "true"}); err != nil {
		return err
	}
	for _, pod := range pods.Items {
		if len(pod.Status.ContainerStatuses) == 0 || pod.Status.ContainerStatuses[0].Resources == nil {
			continue
		}
		limit := pod.Status.ContainerStatuses[0].Resources.Limits.Memory()
		if _, known := s.grows[pod.Name]; !known && limit.Value() < 600<<20 {
			s.grows[pod.Name] = now.Add(3 * time.Second)
		}
	}
	return nil
}

// live lets time go by until the test ends, from pods that have run for a while.
func (s *site) live() {
	s.t.Helper()
	for now := time.Now().Add(-2 * time.Minute); now.Before(time.Now()); now = now.Add(30 * time.Second) {
		require.NoError(s.t, s.sync(now))
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	ended := make(chan struct{})
	s.t.Cleanup(func() { cancel(); <-ended })
	go func() {
		defer close(ended)
		ticker := time.NewTicker(500 * time.Millisecond)
		defer ticker.Stop()
		for ctx.Err() == nil {
			deaf := s.isDeaf()
			if err := s.sync(time.Now()); err != nil && !deaf && !s.isDeaf() {
				assert.NoError(s.t, err, "playing the nodes")
				return
			}
			<-ticker.C
		}
	}()
}

func (s *site) isDeaf() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.deaf
}

// restartAPIServer stops it, and starts it again on the same data a while later.
func (s *site) restartAPIServer() {
	s.t.Helper()
	s.setDeaf(true)
	server := s.env.ControlPlane.GetAPIServer()
	require.NoError(s.t, server.Stop())
	require.NoError(s.t, server.Start())
	awaited(s.t, "the API server", func() error {
		return s.client.List(s.t.Context(), &corev1.PodList{}, client.InNamespace("default"))
	})
	s.setDeaf(false)
}

func (s *site) setDeaf(deaf bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.deaf = deaf
}

// roomyNode has room for everybody to grow. A fullNode has none for its only pod: who counts the requests of pods takes
// it for empty. Each workload has one of its own, since a node that puts a resize off is left alone for a while.
const roomyNode, fullNode = "roomy", "full"

// spareNode is another one with room: an evicted pod could go there.
const spareNode = "spare"

// kind of a workload: what its pod asks for, what it used, and what becomes of its resize.
type kind struct {
	name             string
	requests, limits string
	used             used
	suffers          bool
	policy           string
	// node that its pods are bound to; empty: any.
	node string
	// replicas, one if zero. Of more than one, one is resized, and the others have to wait for hours.
	replicas int32
	// result is the row of its history, size the pod's in the end: CPU request, memory request and limit.
	result, size string
}

// twoCores are bounded by the change that growing allows, 1200m: without a bound the size would depend on how many
// samples the starts of containers leave out.
const (
	twoCores = "2"
	growing  = "cpu: {maxChangePercent: 140}"
)

const (
	once         = "updateStrategy: {type: Auto, cooldown: 10h, safetyObservationPeriod: 1m, resizeMethod: InPlaceOrRecreate, canary: {percentage: 100}}\nmetricsSource: {historyWindow: 24h, minimumDataPoints: 12, rateWindow: 30s}\n"
	lowersMemory = "memory: {allowDecrease: true, maxChangePercent: 90}\n"
)

var (
	kept = kind{
		name: "kept", requests: "cpu=500m,memory=512Mi", used: used{twoCores, 200 << 20}, policy: once + growing,
		node: roomyNode, result: "Success", size: "1200m 512Mi 0",
	}
	reverted = kind{
		name: "reverted", requests: "cpu=500m,memory=512Mi", limits: "memory=1Gi", used: used{"0.1", 200 << 20}, suffers: true,
		node: roomyNode, policy: once + lowersMemory, result: "Reverted oomkill", size: "500m 512Mi 1Gi",
	}
	// evictable is reverted, and each of its pods could go to another node.
	evictable = kind{
		name: "evictable", requests: reverted.requests, limits: reverted.limits, used: reverted.used, suffers: true, replicas: 2,
		policy: strings.Replace(once, "canary: {percentage: 100}", "canary: {percentage: 10}", 1) + lowersMemory, result: reverted.result, size: reverted.size,
	}
	withdrawn = kind{
		name: "withdrawn", requests: "cpu=500m,memory=512Mi", used: used{twoCores, 200 << 20},
		policy: strings.Replace(once, "InPlaceOrRecreate", "InPlaceOnly", 1) + growing,
		node:   fullNode, result: "Withdrawn Deferred", size: "500m 512Mi 0",
	}
)

// workload makes a Deployment of a kind.
func (s *site) workload(name string, k kind) {
	s.t.Helper()
	replicas := max(1, k.replicas)
	labels := map[string]string{"app": name, "suffers": fmt.Sprint(k.suffers)}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	d.Spec.Replicas, d.Spec.Selector = &replicas, &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = labels
	d.Spec.Template.Spec.Containers = []corev1.Container{{
		Name: "app", Image: "example.org/app:1",
		Resources: corev1.ResourceRequirements{Requests: amounts(k.requests), Limits: amounts(k.limits)},
	}}
	node := k.node
	if node == fullNode {
		node = fullNode + "-" + name
		s.node(node, kubelet.Options{CPU: "64"}).Faults.Taken = 63_000
	}
	if node != "" {
		d.Spec.Template.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	}
	require.NoError(s.t, s.client.Create(s.t.Context(), d))
}

// begin lets policies size the workloads, whose pods are there by now.
func (s *site) begin(workloads map[string]kind) {
	s.t.Helper()
	for name, k := range workloads {
		s.history.knows(s.pods(name)[0].Name, name, k.used)
		fields := map[string]any{}
		require.NoError(s.t, yaml.Unmarshal([]byte(k.policy), &fields))
		fields["targetRef"] = map[string]any{"kind": "Deployment", "name": name}
		p := &unstructured.Unstructured{Object: map[string]any{"spec": fields}}
		p.SetAPIVersion(v1alpha1.GroupVersion.String())
		p.SetKind("AttunePolicy")
		p.SetNamespace("default")
		p.SetName(name)
		require.NoError(s.t, s.client.Create(s.t.Context(), p))
	}
}

func amounts(text string) corev1.ResourceList {
	var list corev1.ResourceList
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
		name, value, _ := strings.Cut(part, "=")
		if list == nil {
			list = corev1.ResourceList{}
		}
		list[corev1.ResourceName(name)] = resource.MustParse(value)
	}
	return list
}

// pods of a workload.
func (s *site) pods(workload string) []corev1.Pod {
	s.t.Helper()
	pods := &corev1.PodList{}
	require.NoError(s.t, s.client.List(context.WithoutCancel(s.t.Context()), pods, client.MatchingLabels{"app": workload}))
	require.NotEmpty(s.t, pods.Items, workload)
	return pods.Items
}

// recommendation of a workload; nil: there is none yet.
func (s *site) recommendation(workload string) (*v1alpha1.AttuneRecommendation, error) {
	rec := &v1alpha1.AttuneRecommendation{}
	err := s.client.Get(context.WithoutCancel(s.t.Context()), client.ObjectKey{Namespace: "default", Name: "deployment-" + workload}, rec)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return rec, nil
}

// awaited waits for something, for as long as it takes on a busy machine.
func awaited(t *testing.T, what string, holds func() error) {
	t.Helper()
	const patience = 10 * time.Minute
	require.NoError(t, await.Until(context.WithoutCancel(t.Context()), what, patience, 200*time.Millisecond, func(context.Context) error { return holds() }))
}

// finished: a workload has a history, no open record and no finalizer.
func (s *site) finished(workload string) error {
	rec, err := s.recommendation(workload)
	switch {
	case err != nil:
		return err
	case rec == nil:
		return fmt.Errorf("%s has no recommendation yet", workload)
	case len(rec.Status.History) == 0 || len(rec.Status.Records) > 0 || len(rec.Finalizers) > 0:
		return fmt.Errorf("%s: %d rows, records %v, finalizers %v", workload, len(rec.Status.History), rec.Status.Records, rec.Finalizers)
	}
	return nil
}

// endsWell: the resize of a workload ended as that of its kind does, and left nothing behind.
func (s *site) endsWell(workload string, k kind) {
	s.t.Helper()
	rec, err := s.recommendation(workload)
	require.NoError(s.t, err)
	var rows []string
	for _, row := range rec.Status.History {
		rows = append(rows, strings.TrimSpace(row.Result+" "+row.Reason))
	}
	assert.Equal(s.t, []string{k.result}, rows, workload)
	asks := corev1.ResourceRequirements{Requests: amounts(k.requests), Limits: amounts(k.limits)}
	want, got := []string{k.size}, []string{}
	for range k.replicas - 1 {
		want = append(want, size(asks))
	}
	for _, pod := range s.pods(workload) {
		got = append(got, size(pod.Spec.Containers[0].Resources))
	}
	assert.ElementsMatch(s.t, want, got, workload)
	if assert.Len(s.t, rec.Status.Originals, 1, workload) {
		original := podview.ToRequirements(podview.FromResources(rec.Status.Originals[0].Containers[0].Resources))
		assert.Equal(s.t, size(asks), size(original), workload)
	}
	floors := resize.FloorsOf(rec.Status.Floors, "app", time.Now())
	assert.Equal(s.t, k.suffers, floors[1].Amount > 0, "%s: a floor for memory: %v", workload, rec.Status.Floors)
	assert.Equal(s.t, k.result == "Success", len(rec.Status.Verified) > 0, "%s: kept sizes: %v", workload, rec.Status.Verified)
}

func size(r corev1.ResourceRequirements) string {
	return r.Requests.Cpu().String() + " " + r.Requests.Memory().String() + " " + r.Limits.Memory().String()
}

// isRecoverable: whoever comes now can put every pod back.
func (s *site) isRecoverable(workloads map[string]kind) {
	for name, k := range workloads {
		pods := &corev1.PodList{}
		if !assert.NoError(s.t, s.client.List(context.WithoutCancel(s.t.Context()), pods, client.MatchingLabels{"app": name})) {
			return
		}
		original := size(corev1.ResourceRequirements{Requests: amounts(k.requests), Limits: amounts(k.limits)})
		if !slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return size(p.Spec.Containers[0].Resources) != original }) {
			continue
		}
		rec, err := s.recommendation(name)
		if !assert.NoError(s.t, err) || !assert.NotNil(s.t, rec, name) {
			return
		}
		assert.True(s.t, len(rec.Status.Records) == 1 && len(rec.Finalizers) == 1 || len(rec.Status.History) > 0,
			"nobody knows that the pod of %s was resized: %v", name, rec.Status)
		assert.NotEmpty(s.t, rec.Status.Originals, name)
	}
}

// resizesOf are the different resizes of a workload's pod that reached the API server, and their number.
func (s *site) resizesOf(workload string) (different []string, n int) {
	for _, call := range s.link.Calls() {
		if call.Kind() != "patch pods/resize" || !call.Landed || !strings.HasPrefix(call.Name, workload+"-") {
			continue
		}
		n++
		if !slices.Contains(different, string(call.Body)) {
			different = append(different, string(call.Body))
		}
	}
	return different, n
}

// nothingEvicted: in all that the operator asked for there is no eviction and no deletion.
func (s *site) nothingEvicted() {
	s.t.Helper()
	for _, call := range s.link.Calls() {
		assert.NotEqual(s.t, "eviction", call.Subresource, "%s", call)
		assert.False(s.t, strings.HasPrefix(call.Verb, "delete"), "%s", call)
	}
}

var _ http.Handler = (*history)(nil)
