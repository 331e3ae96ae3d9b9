package policy

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
)

// matching is the result of matching for one namespace, with its inputs. It is immutable once next has returned it,
// so that workers share it without a lock.
type matching struct {
	// policies and most are inputs: if they change, everything is matched again.
	policies []claim
	most     int
	// workloads is a digest of the objects' versions; 0: an object has no version, and the digest is not valid.
	workloads uint64
	// settled is the result by workload, by the same result by policy name.
	settled map[workload.Identity]match
	by      map[string]matched
	// runs are the Jobs of each identity, identities the identities of workloads on whose policy all agree (agree).
	runs       map[workload.Identity]runs
	identities map[workload.Identity]string
	// neighbours are all workloads, large those that are too large.
	neighbours []workload.KindName
	large      []workload.Identity
	// adopted are the ReplicaSets without a template hash, by the Deployment or Argo Rollout that controls them.
	adopted map[workload.Identity][]workload.KindName
}

// claim is the part of a policy that decides which workloads it sizes. Changes of other fields cause no new matching.
type claim struct {
	name string
	uid  types.UID
	// created is in nanoseconds since 1970: among policies of equal weight, the age decides.
	created  int64
	deleting bool
	weight   *int32
	target   v1alpha1.TargetRef
}

// match is the policy that sizes one version of a workload. It holds only names, so that it does not keep old lists
// of objects in memory.
type match struct {
	// uid and version identify the matched object: another version is matched again.
	uid     types.UID
	version string
	// winner is the policy that sizes the workload; empty: no policy does.
	winner string
	losers []loser
	// mixed reports that different policies size the Jobs of an identity, so that none is sized.
	mixed bool
	// unsized is why the winner does not size the workload; empty: it does.
	unsized string
}

// loser is a policy that also selects the workload, with the reason why another policy takes precedence.
type loser struct{ name, reason string }

// matchOf matches a workload in its present version.
func matchOf(w workload.Workload, matcher policy.Matcher) match {
	m := match{uid: w.UID, version: w.Version}
	winner, losers := matcher.Match(w)
	if winner != nil {
		m.winner = winner.Name
	}
	m.losers = podview.Map(losers, func(l policy.Conflict) loser { return loser{l.Policy.Name, l.Reason()} })
	return m
}

// next returns the matching of the present objects. It returns m itself if nothing has changed, and matches only
// changed workloads if the policies are the same; m may be nil. most is how many workloads of the namespace are
// sized.
func (m *matching) next(policies []v1alpha1.AttunePolicy, objects []workload.Object, most int) *matching {
	next := &matching{policies: claims(policies), most: most, workloads: versions(objects), by: map[string]matched{}}
	var known map[workload.Identity]match
	if m == nil {
		m = &matching{}
	} else if reflect.DeepEqual(m.policies, next.policies) {
		if m.workloads == next.workloads && next.workloads != 0 && m.most == most {
			return m
		}
		known = m.settled
	}
	workloads, jobs, runs := fold(read(objects), m.runs)
	next.runs = runs
	next.settled = make(map[workload.Identity]match, len(workloads))
	next.neighbours = make([]workload.KindName, 0, len(workloads))
	matcher := policy.NewMatcher(policies)
	settle := func(w workload.Workload) match {
		s, same := known[w.Identity]
		if !same || w.Version == "" || s.version != w.Version || s.uid != w.UID {
			s = matchOf(w, matcher)
		}
		next.settled[w.Identity] = s
		return s
	}
	for _, w := range workloads {
		if !w.Part() {
			next.addNeighbour(w)
			settle(w)
		} else {
			next.addAdopted(w)
		}
	}
	for id := range runs {
		next.settled[id] = next.settleRuns(id, jobs[id], settle)
	}
	next.identities = next.agree(workloads)
	next.bound(workloads)
	for _, w := range workloads {
		next.addWorkload(w, next.settled[w.Identity])
	}
	return next
}

// addAdopted adds a part of another workload if it is a ReplicaSet without a template hash.
func (m *matching) addAdopted(w workload.Workload) {
	if kind, known := workload.KindOf(w.OwnedBy.GroupKind); known && w.Kind == v1alpha1.KindReplicaSet {
		owner := workload.Identity{Kind: kind, Namespace: w.Namespace, Name: w.OwnedBy.Name}
		podview.SetIn(&m.adopted, owner, append(m.adopted[owner], kindName(w.Identity)))
	}
}

// addNeighbour adds a workload of the namespace.
func (m *matching) addNeighbour(w workload.Workload) {
	if w.TooLarge() {
		m.large = append(m.large, w.Identity)
	}
	for _, name := range (matched{runs: m.runs}).namesOf(w) {
		m.neighbours = append(m.neighbours, workload.KindName{Kind: w.Kind, Name: name})
	}
}

// bound marks the workloads that are not sized: those with too many containers, and the youngest beyond the limit of
// the namespace. It overwrites the marks of an earlier matching, because the limit depends on all workloads together.
func (m *matching) bound(workloads []workload.Workload) {
	var sized []workload.Workload
	for _, w := range workloads {
		s := m.settled[w.Identity]
		s.unsized = ""
		switch {
		case s.winner == "":
			continue
		case s.mixed:
			s.unsized = v1alpha1.ReasonIdentityConflict
		case w.Template != nil && policy.TooManyContainers(&w.Template.Spec):
			s.unsized = v1alpha1.ReasonTooManyContainers
		default:
			sized = append(sized, w)
		}
		m.settled[w.Identity] = s
	}
	for _, w := range policy.Younger(sized, m.most) {
		s := m.settled[w.Identity]
		s.unsized = v1alpha1.ReasonTooManyWorkloads
		m.settled[w.Identity] = s
	}
}

// addWorkload adds a workload to the results of its policies.
func (m *matching) addWorkload(w workload.Workload, s match) {
	if s.winner == "" {
		return
	}
	winner := m.by[s.winner]
	switch s.unsized {
	case v1alpha1.ReasonTooManyContainers:
		winner.crowded.add(w)
	case v1alpha1.ReasonTooManyWorkloads:
		winner.younger.add(w)
	case v1alpha1.ReasonIdentityConflict:
		winner.mixed.add(w)
	default:
		winner.won = append(winner.won, w)
	}
	m.by[s.winner] = winner
	for _, l := range s.losers {
		of := m.by[l.name]
		if of.losses++; of.losses <= maxConflicts {
			of.lost = append(of.lost, v1alpha1.PolicyConflict{Workload: w.String(), Winner: s.winner, Reason: l.reason})
		}
		m.by[l.name] = of
	}
}

// to returns the part of one policy; the lists about the namespace are shared by all.
func (m *matching) to(policy string) matched {
	out := m.by[policy]
	out.neighbours, out.large, out.settled, out.most = m.neighbours, m.large, m.settled, m.most
	out.runs, out.identities, out.adopted = m.runs, m.identities, m.adopted
	return out
}

// claims reads the relevant part of each policy, in the given order.
func claims(policies []v1alpha1.AttunePolicy) []claim {
	return podview.Map(policies, func(p v1alpha1.AttunePolicy) claim {
		return claim{
			name: p.Name, uid: p.UID, created: p.CreationTimestamp.UnixNano(), deleting: p.DeletionTimestamp != nil,
			weight: p.Spec.Weight, target: p.Spec.TargetRef,
		}
	})
}

// read returns the workloads that are not being deleted, sorted by kind and name, so that messages name the same ones
// each time. Their templates belong to the cache, or to the workloads that they refer to.
func read(objects []workload.Object) []workload.Workload {
	out := make([]workload.Workload, 0, len(objects))
	for _, o := range objects {
		if w, ok := workload.From(o); ok && !w.Deleting {
			out = append(out, w)
		}
	}
	workload.Join(out)
	kind := func(w workload.Workload) int { return slices.Index(workload.Kinds, w.Kind) }
	slices.SortFunc(out, func(a, b workload.Workload) int {
		return cmp.Or(cmp.Compare(kind(a), kind(b)), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// hashSeed is random for each process, so that no user can create objects whose digests collide.
var hashSeed = maphash.MakeSeed()

// versions returns a digest of the objects' versions that does not depend on their order: a sum of hashes,
// one for each object. 0: an object has no version, as in some tests.
func versions(objects []workload.Object) uint64 {
	sum := uint64(1)
	var hash maphash.Hash
	hash.SetSeed(hashSeed)
	for _, o := range objects {
		if o.GetResourceVersion() == "" {
			return 0
		}
		hash.Reset()
		for _, part := range []string{string(o.GetUID()), o.GetName(), o.GetResourceVersion()} {
			_, _ = hash.WriteString(part) // it never returns an error
			_ = hash.WriteByte(0)
		}
		sum += hash.Sum64()
	}
	return sum
}

// matched are the workloads that a policy selects: those it won, and those that another policy sizes. It is shared by
// the reconciles of a namespace: do not change it.
type matched struct {
	// won are the workloads that the policy sizes, by kind and name.
	won []workload.Workload
	// lost are the first lost workloads by name, at most maxConflicts; losses counts all of them.
	lost   []v1alpha1.PolicyConflict
	losses int
	// crowded are workloads with too many containers, younger those beyond the limit of the namespace. The policy won
	// both, and neither is sized. most is that limit.
	crowded, younger unsized
	most             int
	// mixed are identities whose Jobs are sized by different policies, and so not sized.
	mixed unsized
	// runs and identities are those of the matching.
	runs       map[workload.Identity]runs
	identities map[workload.Identity]string
	// settled is the result for each workload of the namespace.
	settled map[workload.Identity]match
	// neighbours are all workloads of the namespace: their pods must not be counted as the policy's own.
	neighbours []workload.KindName
	// adopted are those of the matching.
	adopted map[workload.Identity][]workload.KindName
	// large are the workloads of the namespace that are too large to be cached and sized.
	large []workload.Identity
}

// selected counts all workloads that the policy won, whether they are sized or not.
func (m matched) selected() int {
	return len(m.won) + m.crowded.workloads + m.younger.workloads + m.mixed.workloads
}

// unsized counts workloads that are not sized, and names the first of them by kind and name. The status must not grow
// with their number.
type unsized struct {
	workloads int
	first     string
}

// add counts a workload; the first one gives the name.
func (u *unsized) add(w workload.Workload) {
	if u.workloads++; u.workloads == 1 {
		u.first = w.String()
	}
}

// String names the first workload and counts the others, for a message.
func (u unsized) String() string {
	if u.workloads == 1 {
		return u.first
	}
	return fmt.Sprintf("%s and %d more", u.first, u.workloads-1)
}

// noLongerMatches is the reason why a workload that the policy no longer selects has no seed.
const noLongerMatches = "PolicyNoLongerMatches"

// whyReleased returns why the policy no longer sizes a recommendation's workload. The zero value of
// matched gives noLongerMatches.
func (m matched) whyReleased(rec *v1alpha1.AttuneRecommendation) string {
	if reason := m.settled[workload.IdentityOf(rec)].unsized; reason != "" {
		return reason
	}
	return noLongerMatches
}

// policiesOf returns the policies of a namespace: the used ones, and those beyond the limit (policy.Used). Instances
// of cluster policies come last. The objects belong to the cache.
func (c *Controller) policiesOf(ctx context.Context, namespace string) (used, beyond []v1alpha1.AttunePolicy, err error) {
	list := &v1alpha1.AttunePolicyList{}
	if err := c.Client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("listing policies: %w", err)
	}
	used, beyond = policy.Used(list.Items)
	instances, err := c.Settings.Instances(ctx, namespace)
	// beyond continues in the same array.
	return append(slices.Clip(used), instances...), beyond, err
}

// match decides which policy sizes each workload of the namespace, and returns the part of one policy. The result is
// reused for all policies of the namespace until a policy or a workload changes: 100 policies would otherwise match
// all workloads 100 times.
func (c *Controller) match(ctx context.Context, p *v1alpha1.AttunePolicy, used []v1alpha1.AttunePolicy) (matched, error) {
	objects, err := c.everyWorkload(ctx, p.Namespace)
	if err != nil {
		return matched{}, err
	}
	next := c.matchings.Of(p.Namespace).withoutOld(c.Clock.Now()).next(used, objects, c.mostWorkloads())
	c.matchings.Put(p.Namespace, next)
	return next.to(p.Name), nil
}

// forget drops the matching of a namespace without policies.
func (c *Controller) forget(ctx context.Context, namespace string) error {
	used, _, err := c.policiesOf(ctx, namespace)
	if err == nil && len(used) == 0 {
		c.matchings.Forget(namespace)
	}
	return err
}

// everyWorkload lists the workloads of all kinds from the cache. The objects belong to the cache: do not change them.
func (c *Controller) everyWorkload(ctx context.Context, namespace string) ([]workload.Object, error) {
	var all []workload.Object
	for _, kind := range c.Sized.Kinds() {
		list := c.Sized.NewList(kind)
		if err := c.Client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing %ss: %w", kind, err)
		}
		err := meta.EachListItem(list, func(o runtime.Object) error {
			if object, ok := o.(workload.Object); ok {
				all = append(all, object)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}
