package sim

import (
	"context"
	"math/rand/v2"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/usage"
)

// plan is a world as it begins, and what happens to it.
type plan struct {
	Length time.Duration
	// Minor version of Kubernetes.
	Minor    int
	NoResize bool

	Nodes               int
	NodeCPU, NodeMemory string

	Workloads []workloadPlan
	Policies  []policyPlan
	// Objects are further ones that are there from the beginning: LimitRanges, quotas, HPAs, defaults.
	Objects []client.Object
	// Seeds: new pods are sized at admission.
	Seeds bool
	// Labelled: the operator sees the label of namespaces that has new pods sized, without which it evicts no pod for a
	// size. The worlds of seeds are played without it.
	Labelled bool

	// Clusterwide: the policies are cluster policies, each for its kind in its namespace.
	Clusterwide bool

	// Loses is the part of calls that fail at any time.
	Loses float64
	// MostLag of a watch while watches lag, Down how long the operator is away after it was killed.
	MostLag, Down time.Duration
	// Troubles by kind; see disturb.
	Troubles []trouble
	// Validate is what admits new pods as they come from the webhook; nil: everything.
	Validate func(*corev1.Pod) error
	// LeastMemory and TooSmall are the nodes' (kubelet.Faults).
	LeastMemory int64
	TooSmall    string
	// Hazard that was drawn; empty: none.
	Hazard string
	// Actors that were drawn.
	Actors []string
	// Refuse is what the API server refuses beside its own rules; Script is what happens at its time.
	Refuse func(actor, verb string, o client.Object) error
	Script func(*world)
	// Meets is the phase that a record of this world has to reach; empty: none.
	Meets v1alpha1.RecordPhase
	// Climbs: the operator raises what climbs towards its memory limit. Two thirds of the seeds are played without it.
	Climbs bool
	// NoRecent: the operator has no source of the usage of the last minutes. Recent is what that source tells of a container;
	// nil: everything.
	NoRecent bool
	Recent   func(usage.Series) usage.Series
	// Sampled is how often memory is measured that may climb; zero: climbsEvery.
	Sampled time.Duration
	// NothingHarms: no size is too small for a container of this world, and none is killed.
	NothingHarms bool
	// Kept: no demand is higher than ever, so the number of replicas stays what it would be without attune.
	Kept bool
	// Retarget: the operator may change the targets of HPAs. AsProven: no demand is higher than in the history by which it does.
	Retarget, AsProven bool
	// Calm is how long nothing happens at the end.
	Calm time.Duration
}

// workloadPlan is a workload and what it needs.
type workloadPlan struct {
	Kind            v1alpha1.WorkloadKind
	Namespace, Name string
	Replicas        int32
	Containers      []corev1.Container
	Demand          demand
	// Schedule of a CronJob.
	Schedule string
}

// policyPlan is a policy for a kind of workload in a namespace.
type policyPlan struct {
	Namespace, Name string
	Spec            v1alpha1.AttunePolicySpec
}

const (
	mib = 1 << 20
	gib = 1 << 30
)

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func ptr[T any](v T) *T { return &v }

func duration(d time.Duration) *v1alpha1.Duration {
	return &v1alpha1.Duration{Duration: metav1.Duration{Duration: d}}
}

// create what the plan has.
func (p plan) create(w *world) {
	ctx := context.Background()
	made := map[string]bool{}
	namespace := func(name string) {
		if !made[name] {
			made[name] = true
			w.must(w.people.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"attune.io/inject": "enabled"}}}))
		}
	}
	for _, of := range p.Objects {
		if of.GetNamespace() != "" {
			namespace(of.GetNamespace())
		}
		w.must(w.people.Create(ctx, of.DeepCopyObject().(client.Object)))
	}
	for _, of := range p.Workloads {
		namespace(of.Namespace)
		w.demands[of.Namespace+"/"+of.Name] = of.Demand
		w.must(w.people.Create(ctx, of.object()))
	}
	for _, of := range p.Policies {
		namespace(of.Namespace)
		w.must(w.people.Create(ctx, of.object(p.Clusterwide)))
	}
	w.cluster.wake(0)
}

// object is the policy as a person writes it.
func (p policyPlan) object(clusterwide bool) client.Object {
	spec := p.Spec.DeepCopy()
	if !clusterwide {
		return &v1alpha1.AttunePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}, Spec: *spec}
	}
	return &v1alpha1.AttuneClusterPolicy{ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Spec: v1alpha1.AttuneClusterPolicySpec{
		Namespaces: []v1alpha1.NamespaceName{v1alpha1.NamespaceName(p.Namespace)}, PolicySettings: spec.PolicySettings, Weight: spec.Weight,
		TargetRef: &v1alpha1.ClusterTargetRef{Kind: spec.TargetRef.Kind, Selector: spec.TargetRef.Selector},
	}}
}

// policies are those that there are, cluster policies as they are in namespace shop.
func (w *world) policies() (all []*v1alpha1.AttunePolicy) {
	for _, o := range w.server.Stored(&v1alpha1.AttunePolicy{}) {
		all = append(all, o.(*v1alpha1.AttunePolicy))
	}
	for _, o := range w.server.Stored(&v1alpha1.AttuneClusterPolicy{}) {
		of := o.(*v1alpha1.AttuneClusterPolicy)
		p := policy.Instance(of, "shop", true)
		p.Status.Conditions = of.Status.Conditions
		all = append(all, p)
	}
	return all
}

// policyOf a recommendation; nil: it is gone.
func (w *world) policyOf(rec *v1alpha1.AttuneRecommendation) *v1alpha1.AttunePolicy {
	for _, p := range w.policies() {
		if p.Namespace == rec.Namespace && p.Name == policy.NameOf(rec.Spec.Policy) {
			return p
		}
	}
	return nil
}

// object is the workload as a person writes it.
func (p workloadPlan) object() client.Object {
	labels := map[string]string{appLabel: p.Name}
	meta := metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, Labels: labels}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: p.Containers}}
	switch p.Kind {
	case v1alpha1.KindStatefulSet:
		return &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: &p.Replicas, Selector: selector, Template: template, ServiceName: p.Name}}
	case v1alpha1.KindDaemonSet:
		return &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template}}
	case v1alpha1.KindReplicaSet:
		return &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Replicas: &p.Replicas, Selector: selector, Template: template}}
	case v1alpha1.KindJob, v1alpha1.KindCronJob:
		template.Spec.RestartPolicy = corev1.RestartPolicyNever
		job := batchv1.JobSpec{Parallelism: &p.Replicas, Completions: &p.Replicas, Template: template}
		if p.Kind == v1alpha1.KindJob {
			return &batchv1.Job{ObjectMeta: meta, Spec: job}
		}
		return &batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{Schedule: p.Schedule, JobTemplate: batchv1.JobTemplateSpec{Spec: job}}}
	}
	return &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: &p.Replicas, Selector: selector, Template: template}}
}
