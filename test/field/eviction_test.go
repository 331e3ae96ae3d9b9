package field

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/tuning"
	"attune.io/attune/tuning/tuningtest"
	"attune.io/attune/webhook/pod"
)

// eviction is a Deployment whose pods need 6 CPU on nodes of 4 CPU, so that attune wants to evict each of them. A pod that is
// sized at admission runs on a larger node. Every other pod is created on a node of 4 CPU again.
type eviction struct {
	// Namespace of the Deployment. Default: shop.
	Namespace string `json:"namespace,omitempty"`
	// Replicas of the Deployment. Default: 4.
	Replicas int     `json:"replicas,omitempty"`
	Stages   []stage `json:"stages"`
}

// stage is a period, and what attune does in it. A field that is not set keeps the value of the stage before.
type stage struct {
	For metav1.Duration `json:"for"`
	// Down is how long the operator does not run at the beginning.
	Down metav1.Duration `json:"down,omitempty"`
	// Labels of the namespace. Default: attune.io/inject=enabled.
	Labels map[string]string `json:"labels,omitempty"`
	// Arguments of the operator.
	Arguments []string `json:"arguments,omitempty"`
	// Admission is the policy's setting. Default: Enabled.
	Admission v1alpha1.Switch `json:"admission,omitempty"`
	// Webhook is what becomes of a new pod. Default: Sizes.
	Webhook admission `json:"webhook,omitempty"`
	// Template is the CPU request of the template. Default: 500m.
	Template *resource.Quantity `json:"template,omitempty"`
	// Ahead is how far the operator's clock is ahead of the API server's; less than 0: behind.
	Ahead *metav1.Duration `json:"ahead,omitempty"`
	// Forgets: the history of the status has lost its rows at the beginning.
	Forgets bool `json:"forgets,omitempty"`
	// Created pods are added at the beginning: the Deployment scales up.
	Created int `json:"created,omitempty"`

	// Evictions of the stage.
	Evictions int `json:"evictions"`
	// Says is a part of the condition ResizeBlocked at the end; not set: not checked.
	Says string `json:"says,omitempty"`
}

// admission is what the API server and the mutating webhooks make of a new pod.
type admission string

const (
	sizes      admission = "Sizes"       // attune's webhook sizes it.
	fails      admission = "Fails"       // The API server does not reach attune's webhook, or does not call it.
	overwrites admission = "Overwritten" // A webhook that is called later writes the template's resources again.
	alternates admission = "Alternates"  // Every second call fails.
)

// soon is the time between two reconciles while a record is open, later the time otherwise. Each reads the stored status
// alone, as after a restart of the operator.
const (
	soon  = 20 * time.Second
	later = 5 * time.Minute
)

// cluster is the state of one case.
type cluster struct {
	eviction
	stage
	t *testing.T
	// clock is the API server's.
	clock   time.Time
	pods    []*corev1.Pod
	status  v1alpha1.AttuneRecommendationStatus
	created int
	evicted int
}

func (e *eviction) run(t *testing.T) {
	c := &cluster{eviction: *e, t: t, clock: tuningtest.Now}
	if c.Namespace == "" {
		c.Namespace = "shop"
	}
	if c.Replicas == 0 {
		c.Replicas = 4
	}
	half := resource.MustParse("500m")
	c.stage = stage{Labels: map[string]string{v1alpha1.InjectLabel: v1alpha1.InjectEnabled}, Webhook: fails, Template: &half, Ahead: &metav1.Duration{}}
	for range c.Replicas {
		c.create()
	}
	c.Webhook, c.clock = sizes, c.clock.Add(2*time.Hour)
	require.NotEmpty(t, e.Stages)
	for i, next := range e.Stages {
		t.Run(fmt.Sprint("stage ", i), func(t *testing.T) {
			c.t, c.evicted = t, 0
			c.begin(next)
			c.clock = c.clock.Add(next.Down.Duration)
			for end := c.clock.Add(next.For.Duration); c.clock.Before(end); {
				c.reconcile()
				step := soon
				if len(c.status.Records) == 0 {
					step = later
				}
				c.clock = c.clock.Add(min(step, end.Sub(c.clock)))
			}
			c.reconcile()
			blocked := meta.FindStatusCondition(c.status.Conditions, v1alpha1.ConditionResizeBlocked)
			require.NotNil(t, blocked)
			t.Logf("%d evictions, then %s %s", c.evicted, blocked.Reason, blocked.Message)
			assert.Equal(t, next.Evictions, c.evicted, "evictions")
			assert.Contains(t, blocked.Message, next.Says)
		})
	}
}

// begin applies what a stage changes.
func (c *cluster) begin(next stage) {
	before := c.stage
	c.stage = next
	if next.Labels == nil {
		c.Labels = before.Labels
	}
	if next.Arguments == nil {
		c.Arguments = before.Arguments
	}
	if next.Webhook == "" {
		c.Webhook = before.Webhook
	}
	if next.Admission == "" {
		c.Admission = before.Admission
	}
	if next.Template == nil {
		c.Template = before.Template
	}
	if next.Ahead == nil {
		c.Ahead = before.Ahead
	}
	require.Contains(c.t, []admission{sizes, fails, overwrites, alternates}, c.Webhook)
	if next.Forgets {
		c.status.History = nil
	}
	c.Replicas += next.Created
	for range next.Created {
		c.create()
	}
}

// templateSize is the size of the template's container.
func (c *cluster) templateSize() recommender.Size {
	return tuningtest.SizeOf(recommender.Amount(c.Template.MilliValue()), 0, 512, 0)
}

// view is the operator's view of the cluster.
func (c *cluster) view() tuning.View {
	now := c.clock.Add(c.Ahead.Duration)
	need, template := tuningtest.SizeOf(6000, 0, 512, 0), c.templateSize()
	w := tuningtest.Heading(tuningtest.Seen(c.t, template, c.pods...), need)
	w.Now, w.Workload.Replicas, w.Workload.Namespace, w.Rec.Namespace = now, int32(c.Replicas), c.Namespace, c.Namespace
	w.Rec.Spec.DataUntil = &metav1.Time{Time: now}
	six := resource.MustParse("6")
	w.Rec.Spec.Seed = &v1alpha1.Seed{Revision: "r", ValidUntil: metav1.NewTime(now.Add(time.Hour)), RaiseOnly: true,
		Containers: []v1alpha1.ContainerSeed{{Name: "app", CPURequest: &six}}}
	w.Rec.Status = *c.status.DeepCopy()
	w.Policy.Settings.Resize.Method, w.Policy.Settings.Resize.Cooldown = v1alpha1.ResizeInPlaceOrRecreate, 10*time.Minute
	w.Policy.Settings.Recommender.Of[recommender.CPU].MaxChangePercent = 2000
	w.Nodes, w.Looked.Cluster = map[string]tuning.Node{}, nil
	for name, cpu := range map[string]string{"small": "4", "large": "64"} {
		node := tuningtest.Node(name, cpu, "64Gi")
		w.Nodes[name], w.Looked.Cluster = tuning.Node{Node: node}, append(w.Looked.Cluster, node)
	}
	w.Looked.Rooms = map[string]*resize.Room{"small": resize.RoomOf(nil, nil, now), "large": resize.RoomOf(nil, nil, now)}
	w.Operator.MayEvict, w.Policy.Settings.Admission = true, c.Admission
	w.Namespace.NotSized = workload.AdmissionOf("attune-system", c.Arguments).NotSized(c.Namespace, c.Labels)
	return w
}

// reconcile decides once, stores the status and carries out the evictions. Pods that were evicted before are gone
// afterwards.
func (c *cluster) reconcile() {
	w := c.view()
	d := tuning.Decide(w)
	for len(d.Unknowns.Live) > 0 {
		for _, uid := range d.Unknowns.Live {
			w.Looked.Live[uid] = true
		}
		d = tuning.Decide(w)
	}
	require.True(c.t, d.Unknowns.None(), "%+v", d.Unknowns)
	require.Empty(c.t, d.Writes, "no node of 4 CPU can hold the target")
	text, err := json.Marshal(d.Status)
	require.NoError(c.t, err)
	c.status = v1alpha1.AttuneRecommendationStatus{}
	require.NoError(c.t, json.Unmarshal(text, &c.status))
	c.pods = slices.DeleteFunc(c.pods, func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil })
	for _, p := range d.Evictions {
		p.DeletionTimestamp = &metav1.Time{Time: c.clock}
		c.evicted++
		c.create()
	}
}

// create adds a pod as the workload's controller, the API server and the scheduler do.
func (c *cluster) create() {
	c.created++
	template := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app", Resources: podview.ToRequirements(c.templateSize())}}}}
	out := template.DeepCopy()
	if c.Webhook == sizes || c.Webhook == overwrites || c.Webhook == alternates && c.created%2 == 1 {
		c.admit(out)
	}
	if c.Webhook == overwrites { // both webhooks have reinvocationPolicy IfNeeded
		out.Spec = *template.Spec.DeepCopy()
		c.admit(out)
		out.Spec = *template.Spec.DeepCopy()
	}
	p := tuningtest.Running(fmt.Sprintf("web-%d", c.created), podview.ReadSpec(out.Spec.Containers[0].Resources))
	p.UID, p.Namespace, p.Annotations, p.Generation = types.UID(p.Name), c.Namespace, out.Annotations, 1
	started := metav1.NewTime(c.clock.Truncate(time.Second))
	p.CreationTimestamp, p.Status.StartTime = started, &started
	p.Status.ContainerStatuses[0].State.Running.StartedAt = started
	p.Spec.NodeName = "small"
	if cpu := out.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU]; cpu.Cmp(resource.MustParse("4")) > 0 {
		p.Spec.NodeName = "large"
	}
	c.pods = append(c.pods, p)
}

// admit calls attune's webhook.
func (c *cluster) admit(out *corev1.PodTemplateSpec) {
	text, err := json.Marshal(out)
	require.NoError(c.t, err)
	created := &pod.Pod{}
	require.NoError(c.t, json.Unmarshal(text, created))
	w := c.view()
	d := pod.SeedPod(created, pod.Read(w.Rec), &pod.Namespace{}, w.Now)
	require.Equal(c.t, pod.Seeded, d.Reason, d.Message)
	patch, err := jsonpatch.DecodePatch(d.Patch)
	require.NoError(c.t, err)
	text, err = patch.Apply(text)
	require.NoError(c.t, err)
	*out = corev1.PodTemplateSpec{}
	require.NoError(c.t, json.Unmarshal(text, out))
}
