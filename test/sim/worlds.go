package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	fieldpath "k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/resize"
	"attune.io/attune/test/sim/api"
)

// worlds are lives that went wrong once, one for each kind of mistake, of which the seeds play mixtures, and those in
// which another process takes over.
func worlds() map[string]plan {
	all := takeovers()
	maps.Copy(all, wentWrong())
	maps.Copy(all, starvedWorlds())
	return all
}

func wentWrong() map[string]plan {
	return map[string]plan{
		"page cache":                   pageCache(),
		"a limit range comes":          limitRangeComes(),
		"six jobs are kept":            sixJobs(),
		"no resizes are served":        notServed(),
		"no resize is valid":           neverValid(),
		"a container was not tried":    untried(),
		"1.33 and a full node":         fullNode(),
		"a recommendation is refused":  poison(),
		"a wave is harmed":             harmedWave(),
		"one of a wave is harmed":      oneHarmed(),
		"a node dies":                  nodeDies(),
		"a namespace is denied":        deniedNamespace(),
		"recommendations are deleted":  deletedRecommendation(),
		"a start needs more":           startNeedsMore(),
		"autoscalers are not listed":   unlistedAutoscalers(),
		"a person was faster":          personWasFaster(),
		"nodes come and go":            spotNodes(),
		"boosts of many pods":          manyBoosts(),
		"pods of fifteen containers":   manyContainers(),
		"templates leave requests out": requestsLeftOut(),
	}
}

func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// readme is README.md's policy.
func readme(kind v1alpha1.WorkloadKind) policyPlan {
	p := policyPlan{Namespace: "shop", Name: "all-" + strings.ToLower(string(kind))}
	p.Spec.TargetRef.Kind = kind
	p.Spec.UpdateStrategy = &v1alpha1.UpdateStrategy{Type: ptr(v1alpha1.UpdateAuto)}
	p.Spec.Memory = &v1alpha1.MemorySettings{AllowDecrease: ptr(true)}
	return p
}

// hasty is a policy that resizes everything at once, an hour after it began to look.
func hasty(kind v1alpha1.WorkloadKind) policyPlan {
	p := readme(kind)
	p.Spec.MetricsSource = &v1alpha1.MetricsSource{MinimumDataPoints: ptr(int32(12))}
	u := p.Spec.UpdateStrategy
	u.Cooldown, u.SafetyObservationPeriod = duration(5*time.Minute), duration(5*time.Minute)
	u.MaxConcurrentResizes, u.Canary = ptr(intstr.FromString("100%")), &v1alpha1.CanarySettings{Percentage: ptr(int32(100))}
	return p
}

// container asks for an amount; empty limits are none.
func container(requests, limits corev1.ResourceList) corev1.Container {
	return corev1.Container{Name: "app", Image: "example.org/app:1", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}
}

// web is a Deployment that asks for ten times what it needs.
func web(replicas int32) workloadPlan {
	return workloadPlan{
		Kind: v1alpha1.KindDeployment, Namespace: "shop", Name: "web", Replicas: replicas,
		Containers: []corev1.Container{container(amounts("1", "1Gi"), amounts("1", "1Gi"))},
		Demand:     demand{shape: steady, cpu: 0.1, memory: 100 * mib, seed: 1},
	}
}

func roomy(length time.Duration, w ...workloadPlan) plan {
	return plan{
		Length: length, Minor: 36, Nodes: 2, NodeCPU: "64", NodeMemory: "256Gi", Seeds: true,
		Workloads: w, Policies: []policyPlan{hasty(v1alpha1.KindDeployment)},
	}
}

// pageCache: five replicas hold page cache, README's policy, a source that knows what containers hold.
func pageCache() plan {
	w := web(5)
	w.Demand.cache = 4 * gib
	p := roomy(14*time.Hour, w)
	p.Policies = []policyPlan{readme(v1alpha1.KindDeployment)}
	return p
}

// requestsLeftOut: a template has limits alone, another one no memory at all, and the API server and a LimitRange fill in
// what pods request.
func requestsLeftOut() plan {
	limits, nothing := web(2), web(2)
	limits.Containers = []corev1.Container{container(nil, amounts("1", "1Gi"))}
	nothing.Name, nothing.Containers = "api", []corev1.Container{container(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}, nil)}
	p := roomy(12*time.Hour, limits, nothing)
	item := corev1.LimitRangeItem{Type: corev1.LimitTypeContainer}
	item.Default, item.DefaultRequest = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}, corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")}
	p.Objects = append(p.Objects, &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "defaults"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{item}}})
	return p
}

// limitRangeComes: a LimitRange with a default limit comes when a pod that has none was resized; then the pod is
// killed, and cannot be put back.
func limitRangeComes() plan {
	w := web(2)
	w.Containers = []corev1.Container{container(amounts("1", "1Gi"), corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")})}
	p := roomy(6*time.Hour, w)
	p.Script = func(w *world) {
		w.once("a resize is watched", w.watched, func() {
			item := corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Default: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}
			w.must(w.people.Create(context.Background(), &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "defaults"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{item}}}))
			w.grow("shop/web", 9)
		})
	}
	return p
}

// sixJobs: six finished Jobs of a CronJob are kept.
func sixJobs() plan {
	p := roomy(3 * time.Hour)
	p.Policies = []policyPlan{hasty(v1alpha1.KindCronJob)}
	p.Script = func(w *world) {
		ctx := context.Background()
		cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "backup"}}
		cron.Spec.Schedule = "0 * * * *"
		template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{container(amounts("1", "1Gi"), nil)}}}
		cron.Spec.JobTemplate.Spec.Template = template
		w.must(w.people.Create(ctx, cron))
		for i := range 6 {
			job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("backup-2938475%d", i), OwnerReferences: ownedBy("batch/v1", "CronJob", cron)}}
			job.Spec.Template = template
			w.must(w.people.Create(ctx, job))
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: job.Name + "-x", OwnerReferences: ownedBy("batch/v1", "Job", job)}, Spec: template.Spec}
			pod.Labels = map[string]string{batchv1.ControllerUidLabel: string(job.UID), batchv1.JobNameLabel: job.Name}
			w.must(w.people.Create(ctx, pod))
			pod.Status.Phase = corev1.PodSucceeded
			w.must(w.people.Status().Update(ctx, pod))
		}
	}
	return p
}

func ownedBy(apiVersion, kind string, o client.Object) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: o.GetName(), UID: o.GetUID(), Controller: ptr(true)}}
}

// notServed: the API server has no pods/resize.
func notServed() plan {
	p := roomy(4*time.Hour, web(3))
	p.Minor, p.NoResize = 33, true
	return p
}

// neverValid: a rule of a future Kubernetes makes every resize of sixty pods invalid.
func neverValid() plan {
	p := roomy(4*time.Hour, web(60))
	p.Refuse = func(_, verb string, o client.Object) error {
		if verb != "patch/resize" {
			return nil
		}
		return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), o.GetName(), fieldpath.ErrorList{fieldpath.Forbidden(fieldpath.NewPath("spec"), "a rule of a future version")})
	}
	return p
}

// untried: a second container joins one whose size is kept.
func untried() plan {
	p := roomy(8*time.Hour, web(2))
	p.Script = func(w *world) {
		w.time.after(3*time.Hour, func() {
			d := w.deployment("shop", "web")
			more := container(amounts("2", "2Gi"), nil)
			more.Name = "cache"
			d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, more)
			w.must(w.people.Update(context.Background(), d))
			w.watching.disturbed("a container joined")
		})
		w.once("the new container has a target", func() bool { return w.recommended("shop/deployment-web", "cache") }, func() {
			for _, o := range w.server.Stored(&corev1.Pod{}) {
				w.must(client.IgnoreNotFound(w.people.Delete(context.Background(), o.DeepCopyObject().(client.Object))))
			}
		})
	}
	return p
}

// fullNode: on 1.33 a node defers the growth of a pod for ever, and takes no lower memory limit either.
func fullNode() plan {
	w := web(1)
	w.Containers = []corev1.Container{container(amounts("1", "256Mi"), amounts("1", "256Mi"))}
	w.Demand.memory, w.Demand.cpu = 220*mib, 0.5
	p := roomy(8*time.Hour, w)
	p.Minor, p.Nodes = 33, 1
	p.Script = func(w *world) { w.cluster.Nodes()[0].Faults.Rejects = "Node didn't have enough resource: memory" }
	return p
}

// poison: the recommendation of one of five workloads is refused.
func poison() plan {
	var all []workloadPlan
	for i := range 5 {
		w := web(1)
		w.Name = fmt.Sprintf("web%d", i)
		all = append(all, w)
	}
	p := roomy(3*time.Hour, all...)
	p.Refuse = func(_, verb string, o client.Object) error {
		if _, ok := o.(*v1alpha1.AttuneRecommendation); ok && verb == "create" && o.GetName() == "deployment-web1" {
			return apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("attunerecommendations").GroupResource(), o.GetName(), errors.New("denied by an admission policy"))
		}
		return nil
	}
	return p
}

// harmedWave: all pods of a wave need more memory than they were given while they are watched.
func harmedWave() plan {
	p := roomy(5*time.Hour, web(6))
	p.Script = func(w *world) {
		w.once("a resize is watched", w.watched, func() { w.grow("shop/web", 9) })
	}
	return p
}

// oneHarmed: of a wave of four pods one needs more memory than it was given; the others live on with as little.
func oneHarmed() plan {
	p := roomy(5*time.Hour, web(4))
	p.Script = func(w *world) {
		w.once("a resize is watched", w.watched, func() {
			more := w.demands["shop/web"]
			more.memory *= 9
			w.demands["shop/"+w.openRecords()[0].PodName] = more
			w.touchNodes()
			w.watching.disturbed("one pod needs more")
		})
	}
	return p
}

// nodeDies: the node of a pod that is watched is heard of no more until the watch is over.
func nodeDies() plan {
	p := roomy(6*time.Hour, web(3))
	p.Nodes, p.NothingHarms = 3, true
	p.Script = func(w *world) {
		w.once("a resize is watched", w.watched, func() {
			node := w.cluster.Node(w.openRecords()[0].Node)
			node.Cut(w.time.now)
			w.watching.disturbed("a node is cut off")
			w.later(30*time.Minute, "a node is heard again", func() { w.must(node.Start(context.Background(), w.time.now)) })
		})
	}
	return p
}

// deniedNamespace: an authorizer of the platform guards one of two namespaces.
func deniedNamespace() plan {
	guarded := web(2)
	guarded.Namespace = "managed"
	p := roomy(6*time.Hour, web(2), guarded)
	there := hasty(v1alpha1.KindDeployment)
	there.Namespace = guarded.Namespace
	p.Policies = append(p.Policies, there)
	p.Refuse = func(_, verb string, o client.Object) error {
		if verb != "patch/resize" || o.GetNamespace() != guarded.Namespace {
			return nil
		}
		return apierrors.NewForbidden(corev1.Resource("pods"), o.GetName(), errors.New(`User "attune" cannot patch resource "pods/resize" in API group "" in the namespace "managed": the namespace is managed`))
	}
	return p
}

// deletedRecommendation: a person deletes the recommendation of pods that were resized.
func deletedRecommendation() plan {
	p := roomy(6*time.Hour, web(2))
	p.Script = func(w *world) {
		w.time.after(4*time.Hour, func() {
			for _, o := range w.server.Stored(&v1alpha1.AttuneRecommendation{}) {
				w.must(w.people.Delete(context.Background(), o.DeepCopyObject().(client.Object)))
			}
			w.watching.disturbed("a recommendation was deleted")
		})
	}
	return p
}

// startNeedsMore: processes run with a tenth of what they need to come up. Their lower size is kept, and then comes a
// rollout.
func startNeedsMore() plan {
	w := web(3)
	w.Demand.startCPU = 0.5
	// A whole number of cores in a Guaranteed pod is not broken at birth.
	w.Containers = []corev1.Container{container(amounts("1500m", "1Gi"), amounts("1500m", "1Gi"))}
	p := roomy(8*time.Hour, w)
	p.Script = func(w *world) {
		w.once("less than a start needs is kept", func() bool { return w.keepsLess("shop/deployment-web", "400m") }, func() {
			w.edit(0, func(p *corev1.PodTemplateSpec) { p.Spec.Containers[0].Image = "example.org/app:2" })
			w.watching.disturbed("a rollout")
			w.time.after(20*time.Minute, func() {
				if s := w.deployment("shop", "web").Status; s.UpdatedReplicas != 3 || s.AvailableReplicas != 3 {
					w.violate("rollouts end", "of 3 replicas %d are of the new template and %d are available after 20 minutes\n%s", s.UpdatedReplicas, s.AvailableReplicas, w.describe("shop/deployment-web"))
				}
			})
		})
	}
	return p
}

// unlistedAutoscalers: nobody knows what autoscalers hold, and a wave is harmed.
func unlistedAutoscalers() plan {
	p := roomy(5*time.Hour, web(6))
	p.Script = func(w *world) {
		w.once("a resize is watched", w.watched, func() {
			w.faults.unlistedUntil = w.time.now.Add(time.Hour)
			w.grow("shop/web", 9)
		})
	}
	return p
}

// personWasFaster: a person gives a pod more memory while the operator is about to lower it.
func personWasFaster() plan {
	p := roomy(4*time.Hour, web(2))
	p.Script = func(w *world) {
		faster := map[string]int64{}
		w.before = func(c api.Call) {
			name := c.Key.String()
			if pod := w.pod(c.Key.Namespace, c.Key.Name); c.Verb == "patch/resize" && faster[name] == 0 {
				w.rescue(pod, 4)
				faster[name] = limitOf(w.pod(c.Key.Namespace, c.Key.Name).Spec.Containers[0])
				w.time.after(time.Second, func() {
					if now := limitOf(w.pod(c.Key.Namespace, c.Key.Name).Spec.Containers[0]); now < faster[name] {
						w.violate("no rescue is undone", "a person gave pod %s %d bytes; a second later it has %d", name, faster[name], now)
					}
				})
			}
		}
	}
	return p
}

// spotNodes: a node goes and another one comes each minute.
func spotNodes() plan {
	p := roomy(30*time.Hour, web(2))
	p.Nodes, p.Calm = 3, 2*time.Hour
	for at := time.Hour; at < p.Length-p.Calm; at += time.Minute {
		p.Troubles = append(p.Troubles, trouble{After: at, Kind: "node replaced", For: 10 * time.Second, Which: int(at.Minutes())})
	}
	return p
}

// manyBoosts: sixty pods are boosted, and while their boosts are taken back one is killed for want of memory.
func manyBoosts() plan {
	p := roomy(4*time.Hour, web(60))
	p.Policies[0].Spec.CPU = &v1alpha1.CPUSettings{StartupBoost: &v1alpha1.StartupBoost{Multiplier: "3", Duration: *duration(2 * time.Minute)}}
	p.Script = func(w *world) {
		w.time.after(3*time.Hour, func() {
			w.edit(0, func(p *corev1.PodTemplateSpec) { p.Spec.Containers[0].Image = "example.org/app:2" })
			w.watching.disturbed("a rollout")
		})
		w.once("boosts are taken back", w.unboosting, func() {
			pods := w.podsOf(key2("shop", "deployment-web"))
			i := slices.IndexFunc(pods, func(pod *corev1.Pod) bool {
				return !slices.ContainsFunc(w.openRecords(), func(r v1alpha1.ResizeRecord) bool { return r.PodUID == pod.UID })
			})
			if i < 0 {
				return
			}
			pod := pods[i]
			more := w.demands["shop/web"]
			more.memory = float64(limitOf(pod.Spec.Containers[0])) * 1.1
			w.demands["shop/"+pod.Name] = more
			w.touchNodes()
			w.watching.disturbed("one pod needs more")
			was := limitOf(pod.Spec.Containers[0])
			w.time.after(2*time.Minute, func() {
				if now := w.pod(pod.Namespace, pod.Name); now != nil && limitOf(now.Spec.Containers[0]) <= was {
					w.violate("growth waits for nothing", "pod %s was killed with %d bytes two minutes ago and has no more\n%s", pod.Name, was, w.describe("shop/deployment-web"))
				}
			})
		})
	}
	return p
}

// manyContainers: twenty pods of fifteen containers, all resized as soon as there is room in the status.
func manyContainers() plan {
	w := web(20)
	app := w.Containers[0]
	w.Containers = nil
	for i := range 15 {
		app.Name = fmt.Sprintf("container-%02d", i)
		w.Containers = append(w.Containers, app)
	}
	p := roomy(6*time.Hour, w)
	p.NodeCPU = "512"
	return p
}

// keepsLess: a CPU request of a workload that is below an amount was proven, and is what new pods are born with.
func (w *world) keepsLess(rec, cpu string) bool {
	o, found := w.server.Peek(&v1alpha1.AttuneRecommendation{}, keyOf(rec)).(*v1alpha1.AttuneRecommendation)
	if !found || len(o.Status.Verified) == 0 || len(o.Status.Records) > 0 || o.Spec.Seed == nil {
		return false
	}
	most, kept, seed := resource.MustParse(cpu), o.Status.Verified[0].Size.CPURequest, o.Spec.Seed.Containers[0].CPURequest
	return kept != nil && kept.Cmp(most) < 0 && seed != nil && seed.Cmp(most) < 0
}

// unboosting: many boosts are being taken back.
func (w *world) unboosting() bool {
	n := 0
	for _, r := range w.openRecords() {
		if r.Wave == resize.WaveBoost {
			n++
		}
	}
	return n > 10
}

// recommended: a container of a recommendation has a target.
func (w *world) recommended(rec, container string) bool {
	o, found := w.server.Peek(&v1alpha1.AttuneRecommendation{}, keyOf(rec)).(*v1alpha1.AttuneRecommendation)
	return found && slices.ContainsFunc(o.Spec.Containers, func(c v1alpha1.ContainerTarget) bool {
		return c.Name == container && c.Target.CPURequest != nil
	})
}

// openRecords are all of them.
func (w *world) openRecords() (all []v1alpha1.ResizeRecord) {
	for _, o := range w.server.Stored(&v1alpha1.AttuneRecommendation{}) {
		all = append(all, o.(*v1alpha1.AttuneRecommendation).Status.Records...)
	}
	return all
}

// once something holds at the end of a minute, do something.
func (w *world) once(_ string, holds func() bool, do func()) {
	w.time.every(time.Minute, func() bool {
		if !holds() {
			return true
		}
		do()
		return false
	})
}

// watched: some pod whose memory limit was lowered is watched.
func (w *world) watched() bool {
	for _, o := range w.server.Stored(&v1alpha1.AttuneRecommendation{}) {
		for _, record := range o.(*v1alpha1.AttuneRecommendation).Status.Records {
			for i, c := range record.Desired {
				prior := record.Prior[i]
				if record.Phase == v1alpha1.RecordWatching && c.MemoryLimit != nil && prior.MemoryLimit != nil && c.MemoryLimit.Cmp(*prior.MemoryLimit) < 0 {
					return true
				}
			}
		}
	}
	return false
}

// grow what a workload needs of memory.
func (w *world) grow(key string, times float64) {
	d := w.demands[key]
	d.memory *= times
	w.demands[key] = d
	for _, of := range w.lives.all {
		for _, l := range of {
			if l.key == key && l.ended.IsZero() {
				l.of = d
			}
		}
	}
	w.touchNodes()
	w.watching.disturbed("a demand grew")
}

// touchNodes has the kubelets look at what containers need now.
func (w *world) touchNodes() {
	for _, n := range w.cluster.Nodes() {
		n.Touch()
	}
	w.cluster.wake(0)
}

// selected are the recommendations of the plan's workloads that a policy selects and nothing holds back.
func (w *world) selected() (all []types.NamespacedName) {
	if len(w.server.Stored(&v1alpha1.AttuneDefaults{})) > 0 {
		return nil
	}
	policies := w.policies()
	for i, of := range w.plan.Workloads {
		o := w.peek(i)
		if o == nil || o.GetAnnotations()[v1alpha1.SkipAnnotation] != "" {
			continue
		}
		for _, p := range policies {
			if selects(p, of) {
				id := workload.Identity{Kind: of.Kind, Namespace: of.Namespace, Name: of.Name}
				all = append(all, key2(of.Namespace, id.RecommendationName()))
			}
		}
	}
	return all
}

// selects a planned workload, in a mode that recommends.
func selects(p *v1alpha1.AttunePolicy, of workloadPlan) bool {
	ref, u := p.Spec.TargetRef, p.Spec.UpdateStrategy
	ready := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
	if ready != nil && ready.Reason == v1alpha1.ReasonInvalidConfig {
		return false // it says so
	}
	return p.DeletionTimestamp == nil && p.Namespace == of.Namespace && ref.Kind == of.Kind && (ref.Name == "" || ref.Name == of.Name) &&
		(u == nil || u.Type == nil || *u.Type != v1alpha1.UpdateObserve)
}
