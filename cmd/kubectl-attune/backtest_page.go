package main

import (
	"cmp"
	"context"
	"slices"

	"attune.io/attune/cmd/kubectl-attune/backtestpage"
	"attune.io/attune/cmd/kubectl-attune/terminal"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/backtest"
)

const (
	// mostDrawn limits the drawn containers with regressions, mostHarmed the listed ones.
	mostDrawn, mostHarmed = 3, 20
	// mostMoments limits the points of a chart over time.
	mostMoments = 480
)

// writePage writes the answer as an HTML page. It reads the few series to draw a second time, so that the first pass
// need not keep any series.
func (f *backtestFlags) writePage(ctx context.Context, env *environment, usage recorded, found *played, shown *terminal.Progress) error {
	page := backtestpage.Page{Usage: usage.name(), At: env.now(), Rules: f.rules, Policy: found.tallies[0].Report()}
	for i, t := range found.tallies[1:] {
		if i+1 < len(found.tallies)-len(f.sweep) {
			page.Others = append(page.Others, t.Report())
		} else {
			page.Sweep = append(page.Sweep, t.Report())
		}
	}
	if len(f.sweep) > 0 {
		page.Promises = &found.promises
	}
	page.Saved = found.saved()
	order := found.byHarm()
	for _, i := range order[:min(mostHarmed, len(order))] {
		page.Harmed = append(page.Harmed, found.harm(i))
	}
	page.HarmedMore = len(order) - len(page.Harmed)
	var err error
	if page.Budgets, err = f.budgets.broken(page.Policy); err != nil {
		return err
	}
	if page.Series, err = f.draw(ctx, usage, found.chosen(order), shown); err != nil {
		return err
	}
	shown.Done()
	if err := backtestpage.Write(env.Out, page); err != nil {
		return err
	}
	return f.budgets.printExceededBudgets(env, page.Policy)
}

// draw fills in the lines of the chosen series, in their order.
func (f *backtestFlags) draw(ctx context.Context, usage recorded, chosen []backtestpage.Shown, shown *terminal.Progress) ([]backtestpage.Shown, error) {
	place := map[string]int{}
	for i, of := range chosen {
		place[of.Series] = i
	}
	err := usage.each(ctx, func(series string) bool { _, wanted := place[series]; return wanted }, func(of container) error {
		shown.At(of.part, "drawing "+of.ID)
		_, chosen[place[of.ID]].Line = backtest.Drawn(of.Series, f.judgedPolicy(of), f.rules, mostMoments)
		return ctx.Err()
	})
	return chosen, err
}

// saved compares the policy with the present requests of the templates or, if they are not known, with the maximum
// usage plus 20 %.
func (p *played) saved() backtestpage.Saved {
	for _, other := range []struct{ name, than string }{
		{currentName, "requested by the templates"}, {maximumName, "maximum usage plus 20 %"},
	} {
		i := slices.IndexFunc(p.tallies, func(t *backtest.Tally) bool { return t.Report().Name == other.name })
		if i < 0 {
			continue
		}
		saved := backtestpage.Saved{Than: other.than}
		for k, own := range p.tallies[0].Scores() {
			against := p.tallies[i].Scores()[k]
			for r, unit := range [2]float64{recommender.CPU: 3600, recommender.Memory: 3600 * (1 << 30)} {
				if own.Of[r].Requested > 0 && against.Of[r].Requested > 0 {
					saved.Policy[r] += own.Of[r].Requested / unit
					saved.Other[r] += against.Of[r].Requested / unit
				}
			}
		}
		return saved
	}
	return backtestpage.Saved{}
}

// byHarm returns the indices of the series with regressions under the policy. It sorts them by OOM hours per day, then
// by starved minutes per day, highest first.
func (p *played) byHarm() (order []int) {
	scores := p.tallies[0].Scores()
	for i, s := range scores {
		if s.OOMHours > 0 || s.Of[recommender.CPU].Beyond > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, k int) int {
		a, b := scores[i], scores[k]
		return cmp.Or(
			cmp.Compare(float64(b.OOMHours)/b.Scored.Hours(), float64(a.OOMHours)/a.Scored.Hours()),
			cmp.Compare(b.Of[recommender.CPU].Beyond.Hours()/b.Scored.Hours(), a.Of[recommender.CPU].Beyond.Hours()/a.Scored.Hours()),
		)
	})
	return order
}

func (p *played) harm(i int) backtestpage.Harm {
	s := p.tallies[0].Scores()[i]
	return backtestpage.Harm{
		Series: p.series[i], OOMHours: s.OOMHours, StarvedMinutes: s.Of[recommender.CPU].Beyond.Minutes(), DeepMinutes: s.Deep.Minutes(), ContainerDays: s.Scored.Hours() / 24,
	}
}

// chosen returns the series to draw: the ones with the most harm, and the one with the median slack.
func (p *played) chosen(order []int) (all []backtestpage.Shown) {
	drawn := map[int]bool{}
	for _, i := range order[:min(mostDrawn, len(order))] {
		drawn[i] = true
		all = append(all, backtestpage.Shown{Series: p.series[i], Why: "among the largest shortages"})
	}
	if i := p.typical(); i >= 0 && !drawn[i] {
		all = append(all, backtestpage.Shown{Series: p.series[i], Why: "typical, with the median slack"})
	}
	return all
}

// typical returns the index of the series with the median slack of CPU, or of memory if CPU was not measured; -1 if
// there is no such series.
func (p *played) typical() int {
	scores := p.tallies[0].Scores()
	for _, r := range recommender.Resources {
		var of []int
		for i, s := range scores {
			if s.Of[r].Measured > 0 {
				of = append(of, i)
			}
		}
		if len(of) == 0 {
			continue
		}
		slices.SortStableFunc(of, func(i, k int) int {
			return cmp.Compare(scores[i].Of[r].RelativeSlack(), scores[k].Of[r].RelativeSlack())
		})
		return of[(len(of)-1)/2]
	}
	return -1
}
