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
	// mostDrawn is how many containers with harm are drawn, mostHarmed how many are listed.
	mostDrawn, mostHarmed = 3, 20
	// mostMoments is how many parts a chart over time has.
	mostMoments = 480
)

// writePage writes the answer as an HTML page. The few series that it draws are read a second time, so that none has to be
// kept while the first reading judges all.
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
	return f.budgets.judged(env, page.Policy)
}

// draw the chosen series, in their order.
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

// saved compares the policy with what the templates ask for now, else with the most ever used and 20 %.
func (p *played) saved() backtestpage.Saved {
	for _, other := range []struct{ name, than string }{
		{currentName, "the templates request now"}, {maximumName, "the most ever used and 20 %"},
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

// byHarm are the places of the series that the policy would have harmed: those with the most OOM hours first, of those with
// the most starved minutes, each a day.
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

// chosen are the series to draw: those with the most harm, and the one in the middle by slack.
func (p *played) chosen(order []int) (all []backtestpage.Shown) {
	drawn := map[int]bool{}
	for _, i := range order[:min(mostDrawn, len(order))] {
		drawn[i] = true
		all = append(all, backtestpage.Shown{Series: p.series[i], Why: "among the most harm"})
	}
	if i := p.typical(); i >= 0 && !drawn[i] {
		all = append(all, backtestpage.Shown{Series: p.series[i], Why: "the most typical, with the median slack"})
	}
	return all
}

// typical is the place of the series with the median slack, of CPU where that was measured, else of memory; -1: none.
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
