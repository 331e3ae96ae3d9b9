package history

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/backoff"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/usage"
	"attune.io/attune/usage/codec"
)

// fleets reads the pods of the workloads that HPAs scale, in shorter steps than histories: an HPA sees each peak. It
// sends one query at a time, and none without such a workload. A query is about workloads of which the same steps are
// known, forward for new steps or backward for the past. If a source rejects it as too large, the next one has half of
// the steps, then half of the workloads.
type fleets struct {
	// step is the length of a step, length their number in the window.
	step   time.Duration
	length int64
	// turn counts the queries.
	turn int64
	// steps and tracks limit the next query after a rejection, 0: no limit, until a time. answered counts the answers
	// since they were set.
	steps    int64
	tracks   int
	answered int
	until    time.Time
}

const (
	// leastFleetSteps is the fewest steps that a query is about, if so many are due.
	leastFleetSteps = 12
	// assumedValues is the number of values per step of a workload before its first answer.
	assumedValues = 32
	// calmAnswers is how many answers let the limits of the next query grow.
	calmAnswers = 8
	// fleetLag is how late the samples of a step may come.
	fleetLag = 2 * time.Minute
	// mostPartial is how often in a row a partial answer is read again.
	mostPartial = 4
)

// fleetSteps are the lengths that a step may have: an hour has a whole number of each.
var fleetSteps = []time.Duration{1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60}

// newFleets returns the reader for a source that is scraped at an interval; 0: it is not known.
func newFleets(settings usage.SourceSettings, scraped time.Duration) fleets {
	// A rate window usually has four or five scrapes.
	least := max(scraped, min(settings.RateWindow/5, 5*time.Minute))
	step := 60 * time.Minute
	for _, minutes := range slices.Backward(fleetSteps) {
		if minutes*time.Minute >= least {
			step = minutes * time.Minute
		}
	}
	f := fleets{step: step}
	// The oldest hour leaves as a whole.
	f.length = max(1, int64((min(settings.HistoryWindow, codec.MostFleetHours*time.Hour)).Truncate(time.Hour)/step)) + int64(time.Hour/step)
	return f
}

// window is how far back spans reach, in whole hours.
func (f *fleets) window() time.Duration { return time.Duration(f.length)*f.step - time.Hour }

// rateWindow of a CPU rate: two and a half steps, so that it has two samples of a source that is scraped once per step.
func (f *fleets) rateWindow() time.Duration { return f.step * 5 / 2 }

// minutes is the length of a step.
func (f *fleets) minutes() int64 { return int64(f.step / time.Minute) }

// target is a workload of a query.
type target struct {
	namespace string
	number    int
	fleet     *fleet
	// startup, wanted and counted are as in the wish.
	startup         time.Duration
	wanted, counted containers
	// begin is the first step that may be stored.
	begin int64
	// sole and several are the containers of the fleet when the query was planned: its only one, or whether there are
	// several. The read runs without the lock.
	sole    string
	several bool
}

// fleetPlan is the next query about fleets.
type fleetPlan struct {
	query usage.Query
	// first and last are the steps to store. The query has one more before and after them.
	first, last int64
	backward    bool
	targets     []*target
	room        int64
}

// plan returns the next query, or nil if nothing is due.
func (f *fleets) plan(x *index, room int64, now time.Time) *fleetPlan {
	// New steps are read as often as those of histories, and those of all fleets together.
	every := max(1, int64(x.settings.QueryStep/f.step))
	newest := (usage.StepOf(now.Add(-max(f.step, fleetLag)), f.step) - 1) / every * every
	oldest := newest - f.length + 1
	if f.until.Before(now) {
		f.steps, f.tracks = 0, 0
	}
	due := f.due(x, oldest, newest, now)
	if len(due) == 0 {
		return nil
	}
	slices.SortFunc(due, func(a, b *target) int {
		return cmp.Or(cmp.Compare(a.fleet.asked, b.fleet.asked), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.number, b.number))
	})
	lead := due[0].fleet
	plan := &fleetPlan{backward: lead.to == newest, room: room}
	values := int64(0)
	for _, t := range due {
		if t.fleet.to != lead.to || plan.backward && t.fleet.from != lead.from {
			continue
		}
		more := values + cmp.Or(t.fleet.values, assumedValues)
		if len(plan.targets) > 0 && (more*leastFleetSteps > room || len(plan.targets) >= min(cmp.Or(f.tracks, maxPrefixes), maxPrefixes)) {
			break
		}
		plan.targets, values = append(plan.targets, t), more
	}
	steps := min(max(room/values-2, leastFleetSteps), cmp.Or(f.steps, maxChunk-2))
	if plan.backward {
		plan.last = lead.from - 1
		plan.first = max(plan.last-steps+1, oldest)
	} else {
		plan.first = lead.to + 1
		plan.last = min(plan.first+steps-1, newest)
	}
	f.query(x, plan)
	return plan
}

// due returns the fleets that lack steps and are not in a backoff.
func (f *fleets) due(x *index, oldest, newest int64, now time.Time) (due []*target) {
	for name, n := range x.namespaces {
		for i, track := range n.tracks {
			fleet := track.fleet
			if fleet == nil {
				continue
			}
			begin := oldest
			if !n.since.IsZero() {
				begin = min(newest+1, max(oldest, usage.StepHolding(n.since.Add(f.rateWindow()), f.step)))
			}
			fleet.align(begin, newest, f.minutes())
			if wait := fleet.until.Sub(now); wait > 0 && wait <= mostRest {
				continue
			}
			if fleet.to < newest || fleet.from > begin {
				of := n.resolver.wishes[i]
				due = append(due, &target{namespace: name, number: i, fleet: fleet, startup: of.of.startup, wanted: of.containers, counted: of.of.counted, begin: begin,
					sole: fleet.kept.Sole, several: len(fleet.kept.Containers) > 0})
			}
		}
	}
	return due
}

// query builds the query of a plan.
func (f *fleets) query(x *index, plan *fleetPlan) {
	names, pods := sets.New[string](), sets.New[string]()
	for _, t := range plan.targets {
		names.Insert(t.namespace)
		pods.Insert(x.namespaces[t.namespace].resolver.wishes[t.number].prefixes()...)
	}
	plan.query = usage.Query{
		Namespaces: sets.List(names), PodPrefixes: sets.List(pods),
		Start: usage.StepEnd(plan.first-1, f.step), End: usage.StepEnd(plan.last+1, f.step), Step: f.step,
		RateWindow: f.rateWindow(),
	}
	plan.query.Counted = plan.query.End // other queries count dropped samples
}

// refuse makes the next query smaller, or lets a single workload that is too large rest.
func (f *fleets) refuse(plan *fleetPlan, err error, now time.Time) {
	f.answered, f.until = 0, now.Add(keepCut)
	steps := plan.last - plan.first + 1
	switch {
	case steps > leastFleetSteps:
		f.steps = max(leastFleetSteps, steps/2)
	case len(plan.targets) > 1:
		f.tracks = len(plan.targets) / 2
	default:
		plan.targets[0].fleet.rest(err, now)
	}
}

// rest lets a fleet rest after a failure; each in a row doubles the time.
func (f *fleet) rest(why error, now time.Time) {
	f.times++
	f.why, f.until = why, now.Add(backoff.Wait(firstRest, mostRest, f.times))
}

// grow doubles the limits after some answers.
func (f *fleets) grow() {
	if f.answered++; f.answered >= calmAnswers {
		f.answered, f.steps, f.tracks = 0, 2*f.steps, 2*f.tracks
	}
}

// readFleets runs the query about fleets, and returns whether another one may be due.
func (r *refresh) readFleets(ctx context.Context, source usage.Source, plan plan) bool {
	c := newFleetCollector(plan.fleets, plan.resolvers)
	report, err := source.Read(ctx, plan.fleets.query, c.take)
	if err == nil && c.values > 2*plan.fleets.room {
		err = usage.ErrTooMuch
	}
	var measured map[*target]*fleetMeans
	if err == nil {
		measured = c.means()
	}
	ok := true
	r.commit(func(p *pool) {
		f := &p.fleets
		f.turn++
		for _, t := range plan.fleets.targets {
			t.fleet.asked = f.turn
		}
		switch {
		case err == nil:
			f.grow()
			p.keepFleets(plan.fleets, measured, report, r.now)
		case ctx.Err() != nil: // the caller's context has ended
			ok = false
		case errors.Is(err, usage.ErrTooMuch):
			f.refuse(plan.fleets, err, r.now)
		default:
			for _, t := range plan.fleets.targets {
				t.fleet.rest(err, r.now)
			}
		}
	})
	return ok
}

// keepFleets stores an answer. Fleets that were replaced or got other containers during the read are skipped: they are
// read again.
func (p *pool) keepFleets(plan *fleetPlan, measured map[*target]*fleetMeans, report usage.Report, now time.Time) {
	for _, t := range plan.targets {
		n := p.namespaces[t.namespace]
		if n == nil || !t.stands(n, plan) {
			continue
		}
		lacks := report.Lacks(t.namespace)
		if lacks && t.fleet.times < mostPartial {
			t.fleet.rest(nil, now)
			continue
		}
		t.fleet.why, t.fleet.times, t.fleet.until = nil, 0, time.Time{}
		if of := measured[t]; of != nil {
			t.fleet.values = of.values
			if !lacks && n.share.left() >= int64(4*codec.MostFleet) {
				t.fleet.keep(of, plan, p.fleets.minutes())
			}
		}
		if plan.backward {
			t.fleet.from = plan.first
		} else {
			t.fleet.to, t.fleet.changed = plan.last, false
		}
		t.fleet.charge(n.share)
	}
}

// stands reports whether a target is as it was when the query was planned.
func (t *target) stands(n *namespace, plan *fleetPlan) bool {
	next := plan.backward && t.fleet.from == plan.last+1 || !plan.backward && t.fleet.to == plan.first-1
	return next && t.sole == t.fleet.kept.Sole && t.several == (len(t.fleet.kept.Containers) > 0) &&
		slices.ContainsFunc(n.tracks, func(known *track) bool { return known.fleet == t.fleet })
}

// keep adds the means of an answer.
func (f *fleet) keep(of *fleetMeans, plan *fleetPlan, step int64) {
	known := &f.kept
	f.begin(of.containers, plan, plan.first*step)
	for _, m := range of.means {
		if to := known.Of(m.container); to != nil && (m.container == "" || to != &known.Pods) {
			to.Add(m.resource == recommender.Memory, m.ready, m.unready, m.mean, m.step*step)
		}
	}
	for r, steps := range of.known {
		for _, n := range steps {
			known.Known[r].Add(hourOf(n*step), int(60/step))
		}
	}
	if len(of.known[0])+len(of.known[1]) > 0 {
		f.version++
	}
}

// begin makes room for the means of the containers of an answer that begins at a minute.
func (f *fleet) begin(containers []string, plan *fleetPlan, minute int64) {
	known, since := &f.kept, int64(0)
	if !plan.backward && f.changed {
		known.Each(func(m *codec.Means) { m.Since = minute })
	}
	if !plan.backward && f.to >= f.from {
		since = minute
	}
	if len(known.Containers) == 0 && len(containers) == 1 && (known.Sole == "" || known.Sole == containers[0]) {
		known.Sole = containers[0]
	} else if len(containers) > 0 {
		known.Split()
		for _, name := range containers {
			known.Container(name, since)
		}
	}
}

// fleetMeans are the means of one answer about a workload.
type fleetMeans struct {
	// containers are the containers with values, in alphabetical order.
	containers []string
	means      []stepMean
	// known has the steps in which all pods were measured, indexed by resource.
	known  [2][]int64
	values int64
}

// stepMean is the mean of one step: of a container, or of whole pods without a name.
type stepMean struct {
	container      string
	resource       recommender.Resource
	step           int64
	ready, unready int
	mean           float64
}

// fleetCollector holds one answer about fleets until it is complete. It is not safe for concurrent use.
type fleetCollector struct {
	plan      *fleetPlan
	resolvers map[string]*resolver
	targets   map[string]map[int]*target
	pods      map[*target]map[string]*podUsage
	// unsure has the targets whose pods cannot be told from those of another workload.
	unsure map[*target]bool
	// values counts the values in memory, up to a bit more than the plan's room.
	values int64
	latest struct {
		namespace, pod string
		of             *podUsage
		target         *target
	}
}

// podUsage has the values of one pod.
type podUsage struct{ containers []*containerUsage }

// containerUsage has the values of one container in each step of the query, indexed by resource.
type containerUsage struct {
	name string
	// of has NaN where nothing was measured, starting for CPU of the start, and +Inf for an implausible sample.
	of [2][]float64
	// first and last are the first and the last index with a value, indexed by resource; last is -1 without any.
	first, last [2]int
	// runs is the first index in which the container, which the API server knows, has a value; math.MaxInt: not known.
	runs int
}

// starting is the value of a step within the start of a container.
const starting = -1

func newFleetCollector(plan *fleetPlan, resolvers map[string]*resolver) *fleetCollector {
	c := &fleetCollector{plan: plan, resolvers: resolvers, targets: map[string]map[int]*target{}, pods: map[*target]map[string]*podUsage{}, unsure: map[*target]bool{}}
	for _, t := range plan.targets {
		if c.targets[t.namespace] == nil {
			c.targets[t.namespace] = map[int]*target{}
		}
		c.targets[t.namespace][t.number] = t
	}
	return c
}

// take receives one series from a source.
func (c *fleetCollector) take(series usage.Series) {
	if c.latest.pod != series.Pod || c.latest.namespace != series.Namespace {
		c.find(series.Namespace, series.Pod)
	}
	t, pod := c.latest.target, c.latest.of
	if t == nil || c.values > 2*c.plan.room {
		return
	}
	of := c.container(pod, series.Container)
	step := c.plan.query.Step
	if series.Started > 0 && !series.Gone {
		of.runs = min(of.runs, max(0, c.index(series.Started+(t.startup+c.plan.query.RateWindow+step).Milliseconds())))
	}
	before, after, left := series.AroundStart(series.CPU, t.startup, c.plan.query.RateWindow)
	for _, samples := range [][]usage.Sample{before, after} {
		for _, s := range samples {
			c.raise(of, recommender.CPU, s.At, s.Value)
		}
	}
	for _, s := range left {
		c.raise(of, recommender.CPU, s.At, starting)
	}
	for _, s := range series.Memory {
		c.raise(of, recommender.Memory, s.At, s.Value)
	}
	for _, s := range series.CPUImplausible {
		c.raise(of, recommender.CPU, s.At, math.Inf(1))
	}
	for _, s := range series.MemoryImplausible {
		c.raise(of, recommender.Memory, s.At, math.Inf(1))
	}
}

// find the target of a pod, and its usage.
func (c *fleetCollector) find(namespace, pod string) {
	latest := &c.latest
	latest.namespace, latest.pod, latest.target, latest.of = namespace, pod, nil, nil
	targets := c.targets[namespace]
	if targets == nil {
		return
	}
	number, match := c.resolvers[namespace].number(pod)
	if match == workload.MatchAmbiguous {
		for i, t := range targets {
			if slices.ContainsFunc(c.resolvers[namespace].wishes[i].prefixes(), func(prefix string) bool { return strings.HasPrefix(pod, prefix) }) {
				c.unsure[t] = true
			}
		}
	}
	t := targets[number]
	if match != workload.MatchFound || t == nil {
		return
	}
	if c.pods[t] == nil {
		c.pods[t] = map[string]*podUsage{}
	}
	if c.pods[t][pod] == nil {
		c.pods[t][strings.Clone(pod)] = &podUsage{}
	}
	latest.target, latest.of = t, c.pods[t][pod]
}

// container of a pod, which is added if it is missing.
func (c *fleetCollector) container(pod *podUsage, name string) *containerUsage {
	for _, of := range pod.containers {
		if of.name == name {
			return of
		}
	}
	of := &containerUsage{name: strings.Clone(name), last: [2]int{-1, -1}, runs: math.MaxInt}
	pod.containers = append(pod.containers, of)
	return of
}

// index of the step that ends at or after a time in Unix milliseconds.
func (c *fleetCollector) index(at int64) int {
	step := c.plan.query.Step
	return int(usage.StepHolding(time.UnixMilli(at), step) - usage.StepOf(c.plan.query.Start, step))
}

// raise keeps the highest value of a step: a series may come twice.
func (c *fleetCollector) raise(of *containerUsage, r recommender.Resource, at int64, value float64) {
	steps := int(c.plan.query.Steps())
	i := c.index(at)
	if i < 0 || i >= steps || math.IsNaN(value) {
		return
	}
	if of.of[r] == nil {
		of.of[r] = gaps(int64(steps))
		of.first[r] = i
		c.values += int64(steps)
	}
	if to := &of.of[r][i]; !(*to >= value) {
		*to = value
	}
	of.first[r], of.last[r] = min(of.first[r], i), max(of.last[r], i)
}

// means computes the means of all workloads.
func (c *fleetCollector) means() map[*target]*fleetMeans {
	out := make(map[*target]*fleetMeans, len(c.pods))
	for t, pods := range c.pods {
		if !c.unsure[t] {
			out[t] = c.meansOf(t, pods)
		}
	}
	return out
}

// meansOf computes the means of one workload, in the steps that the plan stores.
func (c *fleetCollector) meansOf(t *target, pods map[string]*podUsage) *fleetMeans {
	out := &fleetMeans{}
	all := make([]*podUsage, 0, len(pods))
	for _, pod := range pods {
		all = append(all, pod)
		for _, of := range pod.containers {
			out.values += 2
			if t.wanted.has(of.name) && !slices.Contains(out.containers, of.name) {
				out.containers = append(out.containers, of.name)
			}
		}
	}
	slices.Sort(out.containers)
	names := []string{""}
	if len(out.containers) > 1 || t.several || len(out.containers) == 1 && t.sole != "" && t.sole != out.containers[0] {
		names = append(names, out.containers[:min(len(out.containers), codec.MostFleetContainers)]...)
	}
	last := int(c.plan.last - c.plan.first + 1)
	for _, r := range recommender.Resources {
		for i := 1; i <= last; i++ {
			step := c.plan.first + int64(i) - 1
			if step >= t.begin && c.add(out, names, all, t, r, i, step) {
				out.known[r] = append(out.known[r], step)
			}
		}
	}
	return out
}

// add appends the means of a step, and reports whether they are known: all pods were measured.
func (c *fleetCollector) add(out *fleetMeans, names []string, pods []*podUsage, t *target, r recommender.Resource, i int, step int64) bool {
	count := len(out.means)
	for _, name := range names {
		m := stepMean{container: name, resource: r, step: step}
		for _, pod := range pods {
			runs := t.wanted
			if name == "" && len(t.counted) > 0 {
				runs = t.counted
			}
			use := pod.at(name, runs, r, i)
			switch use.state {
			case unmeasured:
				out.means = out.means[:count]
				return false
			case within:
				m.unready++
			case measuring:
				m.ready++
				m.mean += use.value
			}
		}
		switch {
		case m.ready+m.unready == 0 && name == "", m.ready > 0 && m.mean == 0: // not measured
			out.means = out.means[:count]
			return false
		case m.ready > 0:
			m.mean /= float64(m.ready)
			out.means = append(out.means, m)
		}
	}
	return true
}

// podState is what is known of a pod in a step.
type podState int

const (
	// absent: the pod does not exist, or does not run yet.
	absent podState = iota
	// measuring: its usage is known. within: it starts.
	measuring
	within
	// unmeasured: it runs, and its usage is not known.
	unmeasured
)

type podUse struct {
	state podState
	value float64
}

// at returns the usage of a container of the pod, or of the pod without a name, in a step. wanted are the containers
// that run as long as the pod does.
func (p *podUsage) at(name string, wanted containers, r recommender.Resource, i int) podUse {
	use, lacks, main := podUse{}, false, 0
	for _, of := range p.containers {
		if name != "" && of.name != name {
			continue
		}
		value, known := of.at(r, i)
		if !known {
			lacks = lacks || of.lacks(r, i)
			continue
		}
		lacks = lacks || math.IsInf(value, 1)
		use.add(value)
		if wanted.has(of.name) {
			main++
		}
	}
	switch {
	case lacks, name == "" && 0 < main && main < len(wanted) && use.state != within:
		return podUse{state: unmeasured}
	case main == 0:
		return podUse{} // it does not run yet, or it ends
	}
	return use
}

// add the value of a container.
func (u *podUse) add(value float64) {
	switch {
	case value == starting:
		u.state = within
	case u.state == absent:
		u.state = measuring
	}
	u.value += max(0, value)
}

// at returns the value of a step. CPU without memory in the same step is the rest of a rate of a container that has
// ended, unless memory is not measured.
func (c *containerUsage) at(r recommender.Resource, i int) (float64, bool) {
	if c.last[r] < 0 || math.IsNaN(c.of[r][i]) {
		return 0, false
	}
	if memory := c.of[recommender.Memory]; r == recommender.CPU && memory != nil && math.IsNaN(memory[i]) && i > c.last[recommender.Memory] {
		return 0, false
	}
	// The first rates of a container are over less than their window.
	if r == recommender.CPU && c.first[r] > 0 && i < c.first[r]+2 {
		return starting, true
	}
	return c.of[r][i], true
}

// lacks reports whether a value is missing although the container runs.
func (c *containerUsage) lacks(r recommender.Resource, i int) bool {
	return i >= c.runs || i > c.first[r] && i < c.last[r]
}

// fleetWanted reports whether the pods of a workload can be counted: they are its own.
func fleetWanted(of workload.KindName, members []workload.KindName) bool {
	return of.Kind != v1alpha1.KindJob && of.Kind != v1alpha1.KindCronJob && (len(members) == 0 || slices.Contains(members, of))
}
